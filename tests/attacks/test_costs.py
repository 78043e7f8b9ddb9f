# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A user whose programs cost the profiler more than its budget, beside another user's program that must not notice.

Root's programs cost, too: beside tests that profile, root may be who costs most.
"""
import re

import pytest

import harness
from agent_runs import Agent, get
from conftest import NEIGHBOUR, TENANT
from test_attacks import ends_at_sigterm, room, running

pytestmark = pytest.mark.alone


def stacks_of_chance(ground):
    return ground.tenant("stacks.py")


def exec_storm(ground):
    return ground.tenant("exec_storm.py", room(ground, "programs"))


def storm_of_users(ground):
    """More users than the table of costs has room for, none of whom costs much."""
    return ground.tenant("many_users.py", room(ground, "programs"), TENANT, 1000, namespace="mount")


def users(agent, metric):
    """What /metrics says of users, by number."""
    text = get(agent, "/metrics").decode()
    found = {}
    for uid, value in re.findall(r'^pyperf_user_%s\{user="(\d+)"[^}]*\} ([\d.]+)$' % metric, text, re.M):
        found[int(uid)] = found.get(int(uid), 0) + float(value)
    return found


# Samples of deep stacks cost more than the budget on a fast CPU, too, if they are many.
@pytest.mark.parametrize("attack, hz", [(stacks_of_chance, 999), (exec_storm, 499), (storm_of_users, 499)],
                         ids=lambda value: getattr(value, "__name__", None))
def test_who_costs_too_much_pays(ground, tmp_path, attack, hz):
    """The agent is above its budget: the user who causes it is named and sampled less often, nobody else."""
    config = "frequency = %d\n[budget]\ncpu = 3\n" % hz
    # It works a tenth of the time: on a slow CPU the samples of one that always runs are more than its share themselves.
    with (attack(ground), ground.neighbour("--rest", "0.001") as neighbour,
          running(Agent(tmp_path, config, window=1)) as agent):
        said = re.compile(r"more than the budget of 3%%, .* of it for user %d" % TENANT)
        harness.poll(lambda: any(map(said.search, agent.messages())), "the user in the log")
        harness.poll(lambda: users(agent, "one_of").get(TENANT, 1) > 1, "the user in /metrics")
        costs = users(agent, "cpu_seconds_total")
        assert costs[TENANT] > 2 * costs.get(NEIGHBOUR, 0), costs
        assert users(agent, "one_of").get(NEIGHBOUR, 1) == 1
        before = len(agent.files())
        harness.poll(lambda: len(agent.files()) > before + 4, "windows")
        ends_at_sigterm(agent, 0)
        beside = [w for w in agent.windows() if w.service == "spinner"]
    # Whatever else runs here as root may be too much by itself.
    if costs.get(0, 0) < costs[TENANT] / 4:
        assert {w.hz for w in beside} == {hz}, agent.messages()
