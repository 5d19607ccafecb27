"""`Action` messages against the target's action calls (P4Runtime 1.5, "Action Specification")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translations, Translator
from sglb.switch.p4runtime.values import decode_bits, encode_bits
from sglb.switch.profiles import ActionCall


@dataclass(frozen=True, slots=True)
class _Param:
    id: int
    name: str
    width: int
    translator: Translator | None
    what: str

    def decode(self, data: bytes) -> int:
        if self.translator is not None:
            return self.translator.to_device(data, self.width, self.what)
        return decode_bits(data, self.width, self.what)

    def encode(self, value: int) -> bytes:
        if self.translator is not None:
            return self.translator.to_controller(value)
        return encode_bits(value)


class ActionCodec:
    """One action's parameters; `widths` are those in the device, in order."""

    def __init__(self, info: p4i.Action, widths: Sequence[int], translations: Translations) -> None:
        self.id = info.preamble.id
        self.name = info.preamble.name
        self._params = [
            _Param(
                param.id,
                param.name,
                width,
                translations.of(param.type_name.name) if param.HasField("type_name") else None,
                f"{self.name}, parameter {param.name}",
            )
            for param, width in zip(info.params, widths, strict=True)
        ]
        self._ids = [param.id for param in self._params]

    def decode(self, action: p4r.Action) -> ActionCall:
        """The call; INVALID_ARGUMENT for a parameter missing, unknown or given twice."""
        if [param.param_id for param in action.params] == self._ids:  # as clients mostly send them
            values = [
                known.decode(param.value)
                for known, param in zip(self._params, action.params, strict=True)
            ]
            return ActionCall(self.id, tuple(values))
        given: dict[int, bytes] = {}
        for param in action.params:
            if param.param_id in given:
                raise self._bad(f"parameter {param.param_id} is given twice")
            given[param.param_id] = param.value
        args = []
        for known in self._params:
            if known.id not in given:
                raise self._bad(f"parameter {known.id} ({known.name}) is missing")
            args.append(known.decode(given.pop(known.id)))
        if given:
            names = ", ".join(f"{p.id} {p.name}" for p in self._params) or "none"
            raise self._bad(f"there is no parameter {next(iter(given))} (it has {names})")
        return ActionCall(self.id, tuple(args))

    def encode(self, args: Sequence[int]) -> p4r.Action:
        """The canonical message."""
        action = p4r.Action()
        self.fill(action, args)
        return action

    def fill(self, action: p4r.Action, args: Sequence[int]) -> None:
        """Writes the canonical message."""
        action.action_id = self.id
        for param, value in zip(self._params, args, strict=True):
            made = action.params.add()
            made.param_id = param.id
            made.value = param.encode(value)

    def _bad(self, text: str) -> P4RuntimeError:
        return P4RuntimeError(Code.INVALID_ARGUMENT, f"action {self.name}: {text}")


class ActionSet:
    """The actions of a table, with what each may be used for."""

    def __init__(
        self, where: str, refs: Iterable[p4i.ActionRef], actions: dict[int, ActionCodec]
    ) -> None:
        self._where = where
        self._actions = {ref.id: actions[ref.id] for ref in refs if ref.id in actions}
        self._scopes = {ref.id: ref.scope for ref in refs}

    def decode(self, action: p4r.Action, *, default: bool = False) -> ActionCall:
        """The call for an entry (or member), or for the default entry.

        INVALID_ARGUMENT for an action that the table doesn't list, PERMISSION_DENIED for one whose
        scope (`@tableonly`, `@defaultonly`) forbids this use.
        """
        codec = self.codec(action.action_id)
        scope = self._scopes[action.action_id]
        if default and scope == p4i.ActionRef.TABLE_ONLY:
            raise self._denied(codec, "is @tableonly and cannot be the default")
        if not default and scope == p4i.ActionRef.DEFAULT_ONLY:
            raise self._denied(codec, "is @defaultonly and cannot be in an entry")
        return codec.decode(action)

    def codec(self, action_id: int) -> ActionCodec:
        """The action's codec; INVALID_ARGUMENT for an action that the table doesn't list."""
        codec = self._actions.get(action_id)
        if codec is None:
            names = ", ".join(c.name for c in self._actions.values())
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT,
                f"{self._where} has no action with id {action_id} (it has {names})",
            )
        return codec

    def encode(self, call: ActionCall) -> p4r.Action | None:
        """The message of a call; None for an action that P4Info doesn't show (`@hidden`)."""
        codec = self.shown(call)
        return None if codec is None else codec.encode(call.args)

    def shown(self, call: ActionCall) -> ActionCodec | None:
        """The codec of a call's action; None for one that P4Info doesn't show (`@hidden`)."""
        return self._actions.get(call.action_id)

    def _denied(self, codec: ActionCodec, text: str) -> P4RuntimeError:
        return P4RuntimeError(Code.PERMISSION_DENIED, f"{self._where}: {codec.name} {text}")
