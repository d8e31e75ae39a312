"""A foreign package that brings a stack of its own: identity with a stage and a setting, a model, and a real side."""

from __future__ import annotations

from pathlib import Path

CODE = '''
from seatrial.model.lifecycle import CREATED, Stage, lifecycle_with
from seatrial.model.settings import Setting
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase

INSPECTED = Stage("inspected", "workload", "it was looked at", spent_on="inspection", after=CREATED)


class Drydock(StackBase):
    """Looks at every workload for a while before it lets it go."""

    name = "drydock"
    about = "holds every workload back for an inspection"
    needs = "a dock"
    verified = "by nobody"
    runs_on = ("sim", "kubeconfig")
    stages = lifecycle_with(INSPECTED)
    settings = (Setting("drydock", "inspection", 5 * SECOND, "how long that takes", kind="duration"),)

    def model(self, sim, settings):
        from drydock.model import put_into

        return put_into(sim, settings["drydock"])

    def releases(self, settings):
        return [int(settings["drydock"]["inspection"])]  # or a long one would be taken for a clog

    @property
    def real(self):
        from drydock.real import DrydockReal

        return DrydockReal()


stack = Drydock()
'''
MODEL = """
from drydock import INSPECTED


def put_into(sim, settings):
    takes = int(settings["inspection"])

    def inspected(number):
        sim.ledger.move(sim.kernel.now, number, sim.ledger.number[INSPECTED.name])
        sim.jobs.add(number, sim.workloads[number])

    return lambda number, workload: sim.kernel.at(sim.kernel.now + takes, inspected, number)
"""
REAL = """
from seatrial.kube.resources import Resource
from seatrial.model.interfaces import PresenceSigns
from seatrial.stacks.default.real import DefaultReal, permissions

DOCKS = Resource("drydock.example", "v1", "docks", "Dock")


class DrydockReal(DefaultReal):
    signs = PresenceSigns("docks.drydock.example", ("harbour-master",))

    def permissions(self, setup):
        return (*super().permissions(setup), *permissions(DOCKS, "create", "watch"))
"""


def install(site: Path) -> Path:
    """The package as an installer leaves it: its code, and its metadata with the entry point."""
    (site / "drydock").mkdir(parents=True)
    for name, code in (("__init__", CODE), ("model", MODEL), ("real", REAL)):
        (site / "drydock" / f"{name}.py").write_text(code)
    about = site / "drydock_seatrial-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: drydock-seatrial\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[seatrial.stacks]\ndrydock = drydock:stack\n")
    return site
