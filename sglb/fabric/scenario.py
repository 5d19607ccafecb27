"""Scenario files: from YAML to a topology, flows and faults, or one line for each mistake."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sglb.fabric import dcqcn_config, lossless
from sglb.fabric.dcqcn_config import DcqcnConfig
from sglb.fabric.engine_limits import check_engine, check_lossless
from sglb.fabric.fault_keys import faults, loss_spans
from sglb.fabric.faults import Fault, LinkLoss
from sglb.fabric.lossless import BufferConfig
from sglb.fabric.problems import Problems
from sglb.fabric.schema import Policy, ScenarioModel
from sglb.fabric.schema_errors import schema_problems
from sglb.fabric.topology import Topology
from sglb.fabric.topology_keys import TopologyKeys
from sglb.fabric.units import gbps_to_bps as gbps_to_bps
from sglb.fabric.units import ns_to_ps as ns_to_ps
from sglb.fabric.units import us_to_ps as us_to_ps
from sglb.fabric.workload import Workload
from sglb.fabric.workload_keys import WorkloadKeys
from sglb.fabric.yaml_source import Problem, Source, SourceError, read, read_file


@dataclass(frozen=True, slots=True)
class Scenario:
    """A checked scenario. `model` has every key with its default filled in.

    `losses` are all spans of random loss, those of faults included. `warnings` are about what is allowed
    and hardly meant.
    """

    file: str
    model: ScenarioModel
    topology: Topology
    workload: Workload
    faults: tuple[Fault, ...]
    losses: tuple[LinkLoss, ...]
    warnings: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The scenario's name, by default the file's."""
        return self.model.name or Path(self.file).stem

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Policies to compare, in the order of the file."""
        return tuple(self.model.policies)

    @property
    def stop_ps(self) -> int:
        """When a run is given up, in ps of virtual time."""
        return us_to_ps(self.model.stop_us)

    @property
    def buffer(self) -> BufferConfig:
        """What every switch's traffic manager is built like."""
        return lossless.resolve(self.model.switch, self.model.transport)

    @property
    def dcqcn(self) -> DcqcnConfig:
        """The hosts' rate control."""
        return dcqcn_config.resolve(self.model.transport.dcqcn)

    def headroom_bytes(self, switch_id: int, port: int) -> int:
        """Headroom of each lossless class of a switch's port; 0 without PFC."""
        spec = self.topology.link_at(switch_id, port).spec
        return lossless.port_headroom_bytes(spec, self.model.switch, self.model.transport)

    def rng(self, purpose: str) -> random.Random:
        """A generator for one purpose: the same for the same seed, unlike any other purpose's."""
        return generator(self.model, purpose)


def generator(model: ScenarioModel, purpose: str) -> random.Random:
    """See `Scenario.rng`."""
    return random.Random(f"{model.seed}/{purpose}")


def load(path: str | Path) -> Scenario:
    """Read and check a scenario file. Raises `SourceError` with one line for each problem."""
    return check(read_file(Path(path)))


def loads(text: str, file: str = "<text>") -> Scenario:
    """Like `load`, for text at hand."""
    return check(read(text, file))


def from_dict(data: Mapping[str, Any], file: str = "<scenario>") -> Scenario:
    """Like `load`, for data at hand; problems then name the key only."""
    return check(Source(file, dict(data)))


def check(source: Source) -> Scenario:
    """Turn a read file into a scenario. Raises `SourceError` with one line for each problem."""
    try:
        model = ScenarioModel.model_validate(source.data)
    except ValidationError as error:
        raise SourceError(schema_problems(source, error)) from None
    problems = Problems(source)
    # No name can be checked without a topology, so its problems end the check.
    keys = TopologyKeys(model, problems)
    topology = keys.build()
    if topology is None:
        raise problems.error()
    changes = faults(model.faults, topology, problems)
    flows = WorkloadKeys(
        model.workload, topology, problems, lambda purpose: generator(model, purpose)
    ).build()
    _check_policies(model, problems)
    check_engine(model, topology, problems)
    check_lossless(model, topology, problems)
    if flows is None or problems.found:
        raise problems.error()
    losses = keys.losses + loss_spans(changes)
    warnings = tuple(problems.warnings)
    return Scenario(source.file, model, topology, flows, changes, losses, warnings)


def _check_policies(model: ScenarioModel, problems: Problems) -> None:
    for i, policy in enumerate(model.policies):
        if policy in model.policies[:i]:
            problems.bad(("policies", i), f"{policy} is named twice")
