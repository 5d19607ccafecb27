"""Forwarding pipeline configs: what runs, what was saved to run next.

P4Runtime 1.5, "SetForwardingPipelineConfig RPC". `p4_device_config` holds the text of a P4 program:
the switch compiles it. A switch that was started with a program (or runs one) also takes a config
without text, or with another target's binary or JSON, for that program: the P4Info then says that
both sides mean the same. In every case the P4Info must be the program's.

A saved config has state of its own, which reads and writes go to until it is committed; so COMMIT needs
no replay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from finsy.proto import p4r

from sglb.p4.compiler import compile as compile_p4
from sglb.p4.source import P4Error, P4Errors
from sglb.switch.clock import Scheduler
from sglb.switch.digests import DigestEngine
from sglb.switch.errors import SwitchError
from sglb.switch.p4runtime.bound import BoundPipeline, Surroundings, TranslationOptions
from sglb.switch.p4runtime.p4info_diff import first_difference
from sglb.switch.p4runtime.reconcile import carry_over
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.pre import ReplicationEngine

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram
    from sglb.switch.switch import Switch

_Set = p4r.SetForwardingPipelineConfigRequest
_Get = p4r.GetForwardingPipelineConfigRequest


@dataclass(slots=True)
class _Installed:
    """A config with the handlers that serve it.

    `config` None is that of a program which the switch was given otherwise: its P4Info.
    """

    config: p4r.ForwardingPipelineConfig | None
    bound: BoundPipeline

    def fill(self, message: p4r.ForwardingPipelineConfig, response_type: int) -> None:
        """Writes the parts of the config that were asked for."""
        config = self.config
        message.SetInParent()
        if config is not None and config.HasField("cookie"):
            message.cookie.CopyFrom(config.cookie)
        if response_type in (_Get.ALL, _Get.P4INFO_AND_COOKIE):
            message.p4info.CopyFrom(self.bound.p4info if config is None else config.p4info)
        if config is not None and response_type in (_Get.ALL, _Get.DEVICE_CONFIG_AND_COOKIE):
            message.p4_device_config = config.p4_device_config


@dataclass(slots=True)
class _Saved(_Installed):
    """A config that is to be committed, with the state that has no place in the program's."""

    replication: ReplicationEngine
    digests: DigestEngine


class PipelineConfigs:
    """The pipeline configs of one switch."""

    def __init__(
        self,
        switch: Switch,
        clock: Scheduler,
        translation: TranslationOptions,
        include_dirs: Sequence[Path],
    ) -> None:
        self._switch = switch
        self._clock = clock
        self._translation = translation
        self._include_dirs = tuple(include_dirs)
        self._start_program = switch.program
        self._compiled: tuple[bytes, CompiledProgram] | None = None
        self._live: _Installed | None = None
        self._saved: _Saved | None = None
        self._follow_switch()

    @property
    def current(self) -> BoundPipeline | None:
        """What reads and writes refer to: the saved config if there is one, else what runs."""
        self._follow_switch()
        installed = self._saved or self._live
        return None if installed is None else installed.bound

    @property
    def live(self) -> BoundPipeline | None:
        """What processes packets."""
        self._follow_switch()
        return None if self._live is None else self._live.bound

    def _follow_switch(self) -> None:
        """Binds anew when somebody else loaded a program into the switch (a restart, say)."""
        program = self._switch.program
        if program is None or (
            self._live is not None and self._live.bound.state is self._switch.state
        ):
            return
        self._live = _Installed(None, self._bind_live(program))

    def get(self, response_type: int) -> p4r.GetForwardingPipelineConfigResponse:
        """The answer to GetForwardingPipelineConfig; its config is unset when there is none."""
        if response_type not in _Get.ResponseType.values():
            raise P4RuntimeError(Code.INVALID_ARGUMENT, f"response_type {response_type} is unknown")
        response = p4r.GetForwardingPipelineConfigResponse()
        self._follow_switch()
        installed = self._saved or self._live
        if installed is not None:
            installed.fill(response.config, response_type)
        return response

    def set(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Carries out a SetForwardingPipelineConfig that was found to come from the primary.

        Raises INVALID_ARGUMENT for a config that is missing or cannot be realized, NOT_FOUND for a
        COMMIT without a saved config. Nothing changes then.
        """
        action = request.action
        if action == _Set.COMMIT:
            if request.HasField("config"):
                raise P4RuntimeError(Code.INVALID_ARGUMENT, "COMMIT takes no config")
            if self._saved is None:
                raise P4RuntimeError(
                    Code.NOT_FOUND, "COMMIT: no config was saved (VERIFY_AND_SAVE) before"
                )
            self._commit(self._saved)
            return
        if action not in _Set.Action.values() or action == _Set.UNSPECIFIED:
            raise P4RuntimeError(Code.INVALID_ARGUMENT, f"action {action} is not one to carry out")
        if not request.HasField("config"):
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{_Set.Action.Name(action)}: config is not set"
            )
        self._follow_switch()
        prepared = self._prepare(request.config)
        match action:
            case _Set.VERIFY_AND_SAVE:
                self._saved = prepared
            case _Set.VERIFY_AND_COMMIT:
                self._commit(prepared)
            case _Set.RECONCILE_AND_COMMIT:
                self._reconcile(prepared)

    # --- steps ------------------------------------------------------------------------------------

    def _prepare(self, config: p4r.ForwardingPipelineConfig) -> _Saved:
        """Realizes a config beside the one that runs; raises INVALID_ARGUMENT."""
        program = self._realize(config)
        replication = ReplicationEngine(self._switch.port_live)
        digests = DigestEngine(self._clock)
        try:
            state = self._switch.new_state(program)
            digests.load(frozenset(state.digest_ids.values()))
            bound = BoundPipeline(program, state, self._around(replication, digests))
        except (SwitchError, ValueError) as error:
            raise P4RuntimeError(Code.INVALID_ARGUMENT, str(error)) from error
        kept = p4r.ForwardingPipelineConfig()
        kept.CopyFrom(config)
        return _Saved(kept, bound, replication, digests)

    def _commit(self, saved: _Saved) -> None:
        switch = self._switch
        switch.load(saved.bound.program, saved.bound.state)
        for group in saved.replication.groups():
            switch.replication.insert_group(group)
        for session in saved.replication.sessions():
            switch.replication.insert_session(session)
        for digest_id in saved.digests.enabled():
            config = saved.digests.config(digest_id)
            if config is not None:
                switch.digests.enable(digest_id, config)
        saved.digests.load(frozenset())
        self._live = _Installed(saved.config, self._bind_live(saved.bound.program))
        self._saved = None

    def _reconcile(self, prepared: _Saved) -> None:
        if self._live is None:
            self._commit(prepared)
        elif prepared.bound.program is self._live.bound.program:
            # The same program: its state stays where it is, down to the last counter.
            self._live.config = prepared.config
            self._saved = None
        else:
            carry_over(self._live.bound, prepared.bound)
            self._commit(prepared)

    # --- programs ---------------------------------------------------------------------------------

    def _realize(self, config: p4r.ForwardingPipelineConfig) -> CompiledProgram:
        text = _program_text(config.p4_device_config)
        if text is not None:
            program = self._compile(text, config.p4_device_config)
            difference = first_difference(config.p4info, program.p4info)
        else:
            program, difference = self._known_program(config)
        if difference is not None:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"the P4Info is not that of the program: {difference}"
            )
        return program

    def _known_program(
        self, config: p4r.ForwardingPipelineConfig
    ) -> tuple[CompiledProgram, str | None]:
        """The program that is meant by a config without one, and how its P4Info differs."""
        known = [self._start_program, self._switch.program]
        differences = [
            (program, first_difference(config.p4info, program.p4info))
            for program in known
            if program is not None
        ]
        if not differences:
            what = "is another target's" if config.p4_device_config else "is empty"
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT,
                f"p4_device_config {what}, and the switch was not started with a program: send the "
                "text of the P4 program, or start the switch with it",
            )
        for program, difference in differences:
            if difference is None:
                return program, None
        return differences[-1]

    def _compile(self, text: str, raw: bytes) -> CompiledProgram:
        key = hashlib.sha256(raw).digest()
        if self._compiled is None or self._compiled[0] != key:
            try:
                program = compile_p4(
                    text, include_dirs=self._include_dirs, filename="p4_device_config"
                )
            except (P4Error, P4Errors) as error:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT, f"the program does not compile: {error}"
                ) from error
            self._compiled = (key, program)
        return self._compiled[1]

    # --- binding ----------------------------------------------------------------------------------

    def _bind_live(self, program: CompiledProgram) -> BoundPipeline:
        switch = self._switch
        around = self._around(switch.replication, switch.digests)
        return BoundPipeline(program, switch.state, around)

    def _around(self, replication: ReplicationEngine, digests: DigestEngine) -> Surroundings:
        switch = self._switch
        return Surroundings(
            self._clock,
            replication,
            digests,
            switch.ports.__contains__,
            switch.config.cpu_port,
            self._translation,
        )


def _program_text(config: bytes) -> str | None:
    """The P4 text in a device config; None for an empty one or another target's (JSON, binary)."""
    try:
        text = config.decode()
    except UnicodeDecodeError:
        return None
    if not text.strip() or "\0" in text or text.lstrip().startswith(("{", "[")):
        return None
    return text
