"""The `torch.distributed` backend `reccl`: what torch calls, checked and handed to the algorithms.

Tensors are on the CPU, or on an accelerator and staged through pinned host memory. A call with
`async_op=False` runs in the calling thread. Argument errors are ValueErrors raised before anything is
sent; all later ones are `CollectiveError`s on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
)
from torch.distributed import ProcessGroup

from sglb.collective import algorithms, monitored, sparse
from sglb.collective.group import Body, Group
from sglb.collective.operation import Call, call_of
from sglb.collective.reduce import Operator, Reducer
from sglb.collective.staging import Staged, all_back, cut, overlap
from sglb.collective.transport import Settings
from sglb.collective.work import CollectiveWork

NAME = "reccl"

Tensors = list[torch.Tensor]


class ReCCL(ProcessGroup):
    """One rank of a process group. `settings` of the transport are the environment's by default.

    `name`, equal on all ranks, tells groups of a process apart in what they show.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        timeout: timedelta,
        settings: Settings | None = None,
        global_ranks: Sequence[int] = (),
        name: str = "",
    ) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg] # only so subclasses are called back
        self._ranks, self._rank = size, rank  # size() and rank() take a microsecond each
        self._store = store
        self._name = self._description = ""
        self._group = Group(
            store, rank, size, timeout.total_seconds(), settings, global_ranks, name
        )

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """`reccl`."""
        return NAME

    def getGroupName(self) -> str:  # noqa: N802
        """As torch has set it."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """By torch."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """As torch has set it."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """By torch."""
        self._description = description

    # Reductions.

    def allreduce(self, tensors: Tensors, opts: AllreduceOptions | None = None) -> CollectiveWork:
        """Every rank gets the reduction of all ranks' tensors, in place."""
        opts = opts or AllreduceOptions()
        tensor = _only(tensors, "all_reduce")
        operator = Operator.of(opts.reduceOp)
        if tensor.layout is not torch.strided:
            return self._start(
                call_of("all_reduce", tensor.dtype, tuple(tensor.shape), f"sparse {operator.name}"),
                sparse.all_reduce(tensor, operator),
                tensors,
                opts,
            )
        reducer = Reducer(operator, tensor.dtype, self._ranks)
        staged = Staged(operator.scaled(tensor), write=True, target=tensor)

        def body(x: algorithms.Exchange) -> None:
            algorithms.all_reduce(x, staged.view, reducer)
            staged.back()

        return self._start(_call("all_reduce", [tensor], operator.name), body, tensors, opts)

    def allreduce_coalesced(
        self, tensors: Tensors, opts: AllreduceCoalescedOptions | None = None
    ) -> CollectiveWork:
        """`allreduce` of several tensors of one type, as one."""
        opts = opts or AllreduceCoalescedOptions()
        _alike(tensors, "all_reduce_coalesced")
        operator = Operator.of(opts.reduceOp)
        reducer = Reducer(operator, tensors[0].dtype, self._ranks)
        flat = operator.scaled(torch.cat([t.detach().reshape(-1) for t in tensors]))
        staged = Staged(flat, write=True)
        parts = torch.split(flat, [t.numel() for t in tensors])

        def body(x: algorithms.Exchange) -> None:
            algorithms.all_reduce(x, staged.view, reducer)
            staged.back()
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.detach().copy_(part.view(tensor.shape))

        return self._start(
            _call("all_reduce_coalesced", tensors, operator.name), body, tensors, opts
        )

    def reduce(self, tensors: Tensors, opts: ReduceOptions | None = None) -> CollectiveWork:
        """Rank `opts.rootRank` gets the reduction; other ranks' tensors stay as they are."""
        opts = opts or ReduceOptions()
        tensor = _only(tensors, "reduce")
        root = self._rank_of(opts.rootRank, "reduce")
        operator = Operator.of(opts.reduceOp)
        reducer = Reducer(operator, tensor.dtype, self._ranks)
        mine = root == self._rank
        staged = Staged(operator.scaled(tensor), write=mine, target=tensor)

        def body(x: algorithms.Exchange) -> None:
            algorithms.reduce(x, staged.view, staged.view if mine else None, root, reducer)
            staged.back()

        call = _call("reduce", [tensor], f"{operator.name} to {root}")
        return self._start(call, body, tensors, opts)

    def reduce_scatter(
        self,
        output_tensors: Tensors,
        input_tensors: list[Tensors],
        opts: ReduceScatterOptions | None = None,
    ) -> CollectiveWork:
        """Rank r gets the reduction of all ranks' r-th input."""
        output = _only(output_tensors, "reduce_scatter")
        inputs = self._one_each(_only(input_tensors, "reduce_scatter"), "reduce_scatter")
        _alike([output, *inputs], "reduce_scatter")
        _same_size(output, inputs[self._rank], "reduce_scatter")
        operator = Operator.of((opts or ReduceScatterOptions()).reduceOp)
        target = Staged(output, read=False, write=True, apart=overlap([output], inputs))
        sources = [Staged(operator.scaled(one)) for one in inputs]
        call = _call("reduce_scatter", inputs, operator.name)
        return self._reduce_scatter(call, [(target, sources)], operator, [output], opts)

    def reduce_scatter_single(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        opts: ReduceScatterOptions | None = None,
    ) -> CollectiveWork:
        """`reduce_scatter` of equal parts of one tensor."""
        return self._reduce_scatter_parts(
            "reduce_scatter_tensor", [output_tensor], [input_tensor], opts
        )

    def reduce_scatter_single_coalesced(
        self,
        output_tensors: Tensors,
        input_tensors: Tensors,
        opts: ReduceScatterOptions | None = None,
    ) -> CollectiveWork:
        """Several `reduce_scatter_single`, as one operation."""
        kind = "reduce_scatter_tensor_coalesced"
        return self._reduce_scatter_parts(kind, output_tensors, input_tensors, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter_parts(
        self, kind: str, outputs: Tensors, inputs: Tensors, opts: ReduceScatterOptions | None
    ) -> CollectiveWork:
        operator = Operator.of((opts or ReduceScatterOptions()).reduceOp)
        jobs = []
        for output, whole in zip(outputs, inputs, strict=True):
            self._check_parts(whole, output, kind)
            target = Staged(output, read=False, write=True, apart=overlap([output], [whole]))
            jobs.append((target, [Staged(operator.scaled(whole))]))
        call = _call(kind, inputs, operator.name)
        return self._reduce_scatter(call, jobs, operator, outputs, opts)

    def _reduce_scatter(
        self,
        call: Call,
        jobs: list[tuple[Staged, list[Staged]]],
        operator: Operator,
        outputs: Tensors,
        opts: ReduceScatterOptions | None,
    ) -> CollectiveWork:
        """Sources are one tensor for each rank, or one with equal parts for all."""
        reducers = [Reducer(operator, output.dtype, self._ranks) for output in outputs]

        def body(x: algorithms.Exchange) -> None:
            for (target, sources), reducer in zip(jobs, reducers, strict=True):
                views = _views(sources, x.size)
                algorithms.reduce_scatter(x, views, target.view, reducer)
                target.back()

        return self._start(call, body, outputs, opts or ReduceScatterOptions())

    # Copies.

    def broadcast(self, tensors: Tensors, opts: BroadcastOptions | None = None) -> CollectiveWork:
        """Every rank gets the tensor of rank `opts.rootRank`."""
        opts = opts or BroadcastOptions()
        tensor = _only(tensors, "broadcast")
        root = self._rank_of(opts.rootRank, "broadcast")
        mine = root == self._rank
        staged = Staged(tensor, read=mine, write=not mine)

        def body(x: algorithms.Exchange) -> None:
            algorithms.broadcast(x, staged.view, root)
            staged.back()

        return self._start(_call("broadcast", [tensor], f"from {root}"), body, tensors, opts)

    def allgather(
        self,
        output_tensors: list[Tensors],
        input_tensors: Tensors,
        opts: AllgatherOptions | None = None,
    ) -> CollectiveWork:
        """Every rank gets all ranks' tensors."""
        outputs = self._one_each(_only(output_tensors, "all_gather"), "all_gather")
        own = _only(input_tensors, "all_gather")
        _alike([own, *outputs], "all_gather")
        _same_size(own, outputs[self._rank], "all_gather")
        return self._all_gather("all_gather", [(outputs, own)], outputs, opts)

    def all_gather_single(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        opts: AllgatherOptions | None = None,
    ) -> CollectiveWork:
        """`allgather` into equal parts of one tensor."""
        kind = "all_gather_into_tensor"
        self._check_parts(output_tensor, input_tensor, kind)
        return self._all_gather(kind, [([output_tensor], input_tensor)], [output_tensor], opts)

    def allgather_coalesced(
        self,
        output_tensor_lists: list[Tensors],
        input_tensors: Tensors,
        opts: AllgatherOptions | None = None,
    ) -> CollectiveWork:
        """`output_tensor_lists[r]` becomes the `input_tensors` of rank r."""
        kind = "all_gather_coalesced"
        lists = self._one_each(output_tensor_lists, kind)
        jobs = []
        for own, *outputs in zip(input_tensors, *lists, strict=True):
            _alike([own, *outputs], kind)
            _same_size(own, outputs[self._rank], kind)
            jobs.append((outputs, own))
        return self._all_gather(kind, jobs, [one for row in lists for one in row], opts)

    def all_gather_single_coalesced(
        self,
        output_tensors: Tensors,
        input_tensors: Tensors,
        opts: AllgatherOptions | None = None,
    ) -> CollectiveWork:
        """Several `all_gather_single`, as one operation."""
        kind = "all_gather_into_tensor_coalesced"
        jobs = []
        for whole, own in zip(output_tensors, input_tensors, strict=True):
            self._check_parts(whole, own, kind)
            jobs.append(([whole], own))
        return self._all_gather(kind, jobs, output_tensors, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _all_gather(
        self,
        kind: str,
        jobs: list[tuple[Tensors, torch.Tensor]],
        outputs: Tensors,
        opts: AllgatherOptions | None,
    ) -> CollectiveWork:
        """Outputs of a job are one tensor for each rank, or one with equal parts for all."""
        staged = [
            (
                [Staged(output, read=False, write=True) for output in into],
                Staged(own, apart=overlap([own], into) and not self._in_place(own, into)),
            )
            for into, own in jobs
        ]

        def body(x: algorithms.Exchange) -> None:
            for targets, source in staged:
                algorithms.all_gather(x, source.view, _views(targets, x.size))
                all_back(targets)

        return self._start(_call(kind, outputs), body, outputs, opts or AllgatherOptions())

    def _in_place(self, own: torch.Tensor, into: Tensors) -> bool:
        """Whether a rank's own part of the outputs is what it sends."""
        if not own.is_contiguous() or not all(one.is_contiguous() for one in into):
            return False
        if len(into) == self._ranks:
            return own.data_ptr() == into[self._rank].data_ptr()
        return own.data_ptr() == into[0].data_ptr() + self._rank * own.numel() * own.itemsize

    def gather(
        self,
        output_tensors: list[Tensors],
        input_tensors: Tensors,
        opts: GatherOptions | None = None,
    ) -> CollectiveWork:
        """Rank `opts.rootRank` gets all ranks' tensors."""
        opts = opts or GatherOptions()
        own = _only(input_tensors, "gather")
        root = self._rank_of(opts.rootRank, "gather")
        outputs: Tensors = []
        if root == self._rank:
            outputs = self._one_each(_only(output_tensors, "gather"), "gather")
            _all_same([own, *outputs], "gather")
        elif output_tensors:
            raise ValueError(f"gather: only rank {root} takes output tensors")
        source = Staged(own)
        targets = [Staged(output, read=False, write=True) for output in outputs]

        def body(x: algorithms.Exchange) -> None:
            views = [target.view for target in targets] or None
            algorithms.gather(x, source.view, views, root)
            all_back(targets)

        return self._start(_call("gather", [own], f"to {root}"), body, outputs, opts)

    def scatter(
        self,
        output_tensors: Tensors,
        input_tensors: list[Tensors],
        opts: ScatterOptions | None = None,
    ) -> CollectiveWork:
        """Rank r gets the r-th input tensor of rank `opts.rootRank`."""
        opts = opts or ScatterOptions()
        output = _only(output_tensors, "scatter")
        root = self._rank_of(opts.rootRank, "scatter")
        inputs: Tensors = []
        if root == self._rank:
            inputs = self._one_each(_only(input_tensors, "scatter"), "scatter")
            _all_same([output, *inputs], "scatter")
        elif input_tensors:
            raise ValueError(f"scatter: only rank {root} takes input tensors")
        target = Staged(output, read=False, write=True)
        sources = [Staged(one) for one in inputs]

        def body(x: algorithms.Exchange) -> None:
            views = [source.view for source in sources] or None
            algorithms.scatter(x, views, target.view, root)
            target.back()

        return self._start(_call("scatter", [output], f"from {root}"), body, output_tensors, opts)

    def alltoall(
        self,
        output_tensors: Tensors,
        input_tensors: Tensors,
        opts: AllToAllOptions | None = None,
    ) -> CollectiveWork:
        """Rank r's `output_tensors[s]` becomes the `input_tensors[r]` of rank s."""
        outputs = self._one_each(output_tensors, "all_to_all")
        inputs = self._one_each(input_tensors, "all_to_all")
        _alike([*outputs, *inputs], "all_to_all")
        _same_size(outputs[self._rank], inputs[self._rank], "all_to_all")
        shared = overlap(outputs, inputs)
        sources = [Staged(one, apart=shared) for one in inputs]
        targets = [Staged(output, read=False, write=True) for output in outputs]

        def body(x: algorithms.Exchange) -> None:
            algorithms.all_to_all(x, _views(sources, x.size), _views(targets, x.size))
            all_back(targets)

        # Sizes may differ between pairs; the transport compares those of each message.
        call = call_of("all_to_all", outputs[0].dtype, ())
        return self._start(call, body, output_tensors, opts or AllToAllOptions())

    def all_to_all_single(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        output_split_sizes: list[int] | None = None,
        input_split_sizes: list[int] | None = None,
        opts: AllToAllOptions | None = None,
    ) -> CollectiveWork:
        """`alltoall` of parts along the first dimension; equal ones where no sizes are given."""
        kind = "all_to_all_single"
        _alike([output_tensor, input_tensor], kind)
        into = self._part_bytes(output_tensor, output_split_sizes, kind)
        parts = self._part_bytes(input_tensor, input_split_sizes, kind)
        if into[self._rank] != parts[self._rank]:
            raise ValueError(f"{kind}: this rank's own parts have different sizes")
        source = Staged(input_tensor, apart=overlap([output_tensor], [input_tensor]))
        target = Staged(output_tensor, read=False, write=True)

        def body(x: algorithms.Exchange) -> None:
            algorithms.all_to_all(x, cut(source.view, parts), cut(target.view, into))
            target.back()

        call = call_of(kind, output_tensor.dtype, ())
        return self._start(call, body, [output_tensor], opts or AllToAllOptions())

    alltoall_base = all_to_all_single

    # Messages.

    def send(self, tensors: Tensors, dstRank: int, tag: int = 0) -> CollectiveWork:  # noqa: N803
        """Sends a tensor to a rank; a receive with the same tag gets it."""
        tensor = _only(tensors, "send")
        peer = self._other_rank(dstRank, "send")
        return self._group.send(peer, tag, Staged(tensor), _words("send", tensor, f"to {peer}"))

    def recv(self, tensors: Tensors, srcRank: int, tag: int = 0) -> CollectiveWork:  # noqa: N803
        """Receives a tensor from a rank."""
        return self._receive(tensors, self._other_rank(srcRank, "recv"), tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> CollectiveWork:
        """Receives a tensor from whichever rank sends one with this tag."""
        return self._receive(tensors, None, tag)

    def _receive(self, tensors: Tensors, peer: int | None, tag: int) -> CollectiveWork:
        tensor = _only(tensors, "recv")
        staged = Staged(tensor, read=False, write=True)
        label = _words("recv", tensor, "from anybody" if peer is None else f"from {peer}")
        return self._group.recv(peer, tag, staged, label, tensors)

    # Barriers.

    def barrier(self, opts: BarrierOptions | None = None) -> CollectiveWork:
        """Ends when all ranks have begun it."""
        return self._start(
            call_of("barrier", "", ()), algorithms.barrier, [], opts or BarrierOptions()
        )

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier whose error names the ranks that did not come: the first one, or all."""
        limit_s = self._group.timeout_s if timeout is None else timeout.total_seconds()
        # Rank 0 says who is missing; others leave it the time to.
        own_limit_s = limit_s if self._rank == 0 else limit_s * 1.5 + 1

        def body(x: algorithms.Exchange) -> None:
            if x.rank == 0:
                monitored.watch(x, limit_s, wait_all_ranks)
            else:
                monitored.report(x)

        call = call_of("monitored_barrier", "", ())
        self._group.start(call, body, [], sync=True, timeout_s=own_limit_s)

    # The group itself.

    def get_group_store(self) -> Store:
        """Where the ranks have met."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """For operations from now on."""
        self._group.timeout_s = timeout.total_seconds()

    def abort(self) -> None:
        """Ends the group: operations under way, and later ones, fail on every rank."""
        self._group.abort(f"abort() was called on rank {self._rank}")

    def shutdown(self) -> None:
        """Lets asynchronous operations finish and closes the connections."""
        self._group.close()

    def _set_sequence_number_for_group(self) -> None:
        """Nothing to agree on: every rank begins at 0."""

    def _get_sequence_number_for_group(self) -> int:
        return self._group.number

    def _start(
        self, call: Call, body: Body, result: list[torch.Tensor], opts: Any
    ) -> CollectiveWork:
        timeout_s = opts.timeout.total_seconds()
        return self._group.start(
            call,
            body,
            result,
            sync=not opts.asyncOp,
            timeout_s=timeout_s if timeout_s > 0 else None,
        )

    # Arguments.

    def _rank_of(self, rank: int, kind: str) -> int:
        if not 0 <= rank < self._ranks:
            raise ValueError(f"{kind}: rank {rank} is none of 0 to {self._ranks - 1}")
        return rank

    def _other_rank(self, rank: int, kind: str) -> int:
        if rank == self._rank:
            raise ValueError(f"{kind}: rank {rank} is this rank itself")
        return self._rank_of(rank, kind)

    def _one_each(self, items: Sequence[Any], kind: str) -> list[Any]:
        if len(items) != self._ranks:
            raise ValueError(
                f"{kind}: {len(items)} tensors for {self._ranks} ranks; give one for each"
            )
        return list(items)

    def _check_parts(self, whole: torch.Tensor, part: torch.Tensor, kind: str) -> None:
        _alike([whole, part], kind)
        if whole.numel() != part.numel() * self._ranks:
            raise ValueError(
                f"{kind}: a tensor of {whole.numel()} elements is not {self._ranks} times one of "
                f"{part.numel()}"
            )

    def _part_bytes(
        self, tensor: torch.Tensor, sizes: Sequence[int] | None, kind: str
    ) -> list[int]:
        """Bytes of each rank's part along the first dimension."""
        rows = tensor.shape[0] if tensor.dim() else 1
        if not sizes:
            if rows % self._ranks:
                raise ValueError(f"{kind}: {rows} rows do not split into {self._ranks} equal parts")
            return [tensor.numel() * tensor.itemsize // self._ranks] * self._ranks
        self._one_each(sizes, f"{kind} split sizes")
        if sum(sizes) != rows or min(sizes) < 0:
            raise ValueError(f"{kind}: split sizes {list(sizes)} do not add up to {rows} rows")
        row_bytes = tensor.numel() // rows * tensor.itemsize if rows else 0
        return [size * row_bytes for size in sizes]


def create(
    opts: torch._C._distributed_c10d._DistributedBackendOptions, settings: Settings | None
) -> ReCCL:
    """What torch calls to make a group; `settings` is the caller's `pg_options`."""
    if settings is not None and not isinstance(settings, Settings):
        raise ValueError(
            f"reccl takes pg_options of type {Settings.__module__}.Settings, not {type(settings)}"
        )
    return ReCCL(
        opts.store,
        opts.group_rank,
        opts.group_size,
        opts.timeout,
        settings,
        opts.global_ranks_in_group,
        opts.group_id,
    )


def _only(items: Sequence[Any], kind: str) -> Any:
    if len(items) != 1:
        raise ValueError(f"{kind}: one tensor per rank, not {len(items)}")
    return items[0]


def _alike(tensors: Sequence[torch.Tensor], kind: str) -> None:
    if not tensors:
        raise ValueError(f"{kind}: no tensors")
    dtypes = {tensor.dtype: None for tensor in tensors}
    devices = {tensor.device: None for tensor in tensors}
    if len(dtypes) > 1 or len(devices) > 1:
        found = ", ".join(map(str, dtypes if len(dtypes) > 1 else devices))
        raise ValueError(f"{kind}: tensors of different types or devices: {found}")


def _same_size(output: torch.Tensor, one: torch.Tensor, kind: str) -> None:
    if output.numel() != one.numel():
        raise ValueError(f"{kind}: {one.numel()} elements do not fit {output.numel()}")


def _all_same(tensors: Sequence[torch.Tensor], kind: str) -> None:
    _alike(tensors, kind)
    for tensor in tensors[1:]:
        _same_size(tensors[0], tensor, kind)


def _views(staged: Sequence[Staged], ranks: int) -> list[memoryview]:
    """A part for each rank: a tensor each, or equal parts of one."""
    if len(staged) == ranks:
        return [one.view for one in staged]
    return cut(staged[0].view, [len(staged[0].view) // ranks] * ranks)


def _call(kind: str, tensors: Sequence[torch.Tensor], detail: str = "") -> Call:
    return call_of(kind, tensors[0].dtype, tuple(tensor.numel() for tensor in tensors), detail)


def _words(kind: str, tensor: torch.Tensor, detail: str) -> str:
    return call_of(kind, tensor.dtype, (tensor.numel(),), detail).text
