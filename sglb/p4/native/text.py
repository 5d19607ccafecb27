"""LLVM text under construction: one function, block by block."""

from __future__ import annotations

from dataclasses import dataclass

#: Integers that LLVM's parser is given in decimal; larger ones go as hexadecimal.
_DECIMAL = 1 << 63


def literal(value: int) -> str:
    """An unsigned integer constant."""
    return str(value) if value < _DECIMAL else f"u0x{value:X}"


@dataclass(eq=False, slots=True)
class Label:
    """A basic block's name, and whether anything jumps there."""

    name: str
    used: bool = False


class Function:
    """A function's text. After a terminator, lines are dropped until the next label is placed."""

    def __init__(self, head: str) -> None:
        self.head = head
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._open = True
        self._known: dict[str, str] = {}

    @property
    def open(self) -> bool:
        """Whether the current line can be reached."""
        return self._open

    def name(self) -> str:
        """A fresh value's name."""
        self._count += 1
        return f"%t{self._count}"

    def op(self, text: str) -> str:
        """Adds an instruction that gives a value; returns its name."""
        name = self.name()
        if self._open:
            self._lines.append(f"  {name} = {text}")
            return name
        return "poison"

    def do(self, text: str) -> None:
        """Adds an instruction that gives none."""
        if self._open:
            self._lines.append(f"  {text}")

    def at_start(self, text: str) -> str:
        """A value that depends on the arguments only, computed once, before everything else."""
        name = self._known.get(text)
        if name is None:
            name = self._known[text] = self.name()
            self._entry.append(f"  {name} = {text}")
        return name

    def alloca(self, type_: str, align: int = 0) -> str:
        """Room for a value of the type, undefined at first."""
        name = self.name()
        suffix = f", align {align}" if align else ""
        self._entry.append(f"  {name} = alloca {type_}{suffix}")
        return name

    def start(self, text: str) -> None:
        """Adds an instruction before everything else."""
        self._entry.append(f"  {text}")

    # --- control flow ---

    def label(self, hint: str) -> Label:
        """A new label, placed nowhere yet."""
        self._count += 1
        return Label(f"{hint}{self._count}")

    def place(self, label: Label) -> None:
        """Goes on at a label, falling into it from the current line."""
        self.jump(label)
        self._open = label.used
        if label.used:
            self._lines.append(f"{label.name}:")

    def place_target(self, label: Label) -> None:
        """Places a label that later lines jump back to."""
        self.jump(label)
        label.used = True
        self._open = True
        self._lines.append(f"{label.name}:")

    def jump(self, label: Label) -> None:
        """Goes to a label."""
        if self._open:
            label.used = True
            self._lines.append(f"  br label %{label.name}")
            self._open = False

    def branch(self, cond: str, then: Label, other: Label) -> None:
        """Goes to `then` if the i1 holds, else to `other`."""
        if self._open:
            then.used = other.used = True
            self._lines.append(f"  br i1 {cond}, label %{then.name}, label %{other.name}")
            self._open = False

    def switch(
        self, type_: str, value: str, default: Label, cases: list[tuple[int, Label]]
    ) -> None:
        """Goes where the value says; the first case of a value holds."""
        if not self._open:
            return
        first: dict[int, Label] = {}
        for number, label in cases:
            first.setdefault(number, label)
        default.used = True
        for label in first.values():
            label.used = True
        arms = " ".join(f"{type_} {literal(n)}, label %{to.name}" for n, to in first.items())
        self._lines.append(f"  switch {type_} {value}, label %{default.name} [ {arms} ]")
        self._open = False

    def leave(self, text: str) -> None:
        """Returns."""
        if self._open:
            self._lines.append(f"  ret {text}")
            self._open = False

    def text(self) -> str:
        """The whole function."""
        self.leave("void")  # only reached in functions that return nothing
        body = "\n".join(self._lines)
        entry = "\n".join(self._entry)
        return f"{self.head} {{\nentry:\n{entry}\n  br label %body\nbody:\n{body}\n}}\n"
