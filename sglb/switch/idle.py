"""Tells when table entries go unused for their idle timeout."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sglb.switch.clock import PS_PER_US, Handle, Scheduler
from sglb.switch.tables import Table, TableEntry

# A table is looked at this often at most: a timeout of a nanosecond, which P4Runtime allows, re-arms
# itself at once and would leave no time for packets.
MIN_INTERVAL_PS = PS_PER_US


class IdleWatcher:
    """Watches tables; `notify(table, entries)` hears of each idle entry once per timeout passed.

    Repeats are at least `MIN_INTERVAL_PS` apart, whatever the timeouts.
    """

    def __init__(self, clock: Scheduler, notify: Callable[[Table, list[TableEntry]], None]) -> None:
        self._clock = clock
        self._notify = notify
        self._pending: dict[Table, tuple[int, Handle]] = {}

    def watch(self, tables: Iterable[Table]) -> None:
        """Watches these tables, and no longer those from before."""
        for _, handle in self._pending.values():
            handle.cancel()
        self._pending.clear()
        for table in tables:
            if table.decl.support_timeout:
                table.on_idle_entry = self._entry_changed
                self._plan(table, table.next_idle_ps())

    def _entry_changed(self, table: Table, entry: TableEntry) -> None:
        self._plan(table, table.idle_due_ps(entry))

    def _plan(self, table: Table, due: int | None) -> None:
        """Looks at a table when an entry may be due, unless that is planned for earlier anyway."""
        if due is None:
            return
        pending = self._pending.get(table)
        if pending is not None and pending[1].active:
            if pending[0] <= due:
                return
            pending[1].cancel()
        due = max(due, self._clock.now_ps)
        self._pending[table] = (due, self._clock.call_at(due, self._check, table))

    def _check(self, table: Table) -> None:
        entries = table.idle(self._clock.now_ps)
        due = table.next_idle_ps()
        if entries:
            self._notify(table, entries)
            if due is not None:
                due = max(due, self._clock.now_ps + MIN_INTERVAL_PS)
        self._plan(table, due)
