"""The answers against the truth, which other code added up from the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
from isotherm.fleet.questions import QUESTIONS

FLEETS = ["sound", "faulty"]


def rows(fleet: Any, question: str, answer: str, key: str) -> dict[str, dict[str, Any]]:
    found = {each.name: each for each in fleet.ask(QUESTIONS[question])}
    return {row[key]: row for row in found[answer].rows.to_pylist()}


@pytest.mark.parametrize("name", FLEETS)
def test_idle_by_service_and_node(name: str, request: Any, opened: Any) -> None:
    made = request.getfixturevalue(name)
    fleet = opened(made)
    found, truth = rows(fleet, "idle", "idle_by_service", "service"), made[1]["services"]
    present = {service: known for service, known in truth.items() if known["hosts"]}
    assert set(found) == set(present)
    for service, known in present.items():
        row = found[service]
        assert row["hosts"] == known["hosts"]
        assert row["cgroups"] == pytest.approx(known["cgroups"])
        assert row["current_bytes"] == pytest.approx(known["current"], rel=1e-9)
        for age in ("1m", "5m", "30m"):
            for end in ("", "_lo", "_hi"):
                value = row[f"idle_{age}{end}_bytes"]
                assert value == pytest.approx(known[f"idle_{age}{end}"], rel=1e-9), (service, age)
    nodes = rows(fleet, "idle", "idle_by_node", "node")
    assert set(nodes) == set(made[1]["nodes"])
    for node, idle in made[1]["nodes"].items():
        assert nodes[node]["idle_5m_bytes"] == pytest.approx(idle, rel=1e-9)


@pytest.mark.parametrize("name", FLEETS)
def test_curves_bring_back_what_came_back(name: str, request: Any, opened: Any) -> None:
    made = request.getfixturevalue(name)
    answers = {a.name: a for a in opened(made).ask(QUESTIONS["savings"])}
    seconds = {60: "1m", 300: "5m", 1800: "30m"}
    for row in answers["curves"].rows.to_pylist():
        known, age = made[1]["services"][row["service"]], seconds[row["age_s"]]
        assert row["saves_bytes"] == pytest.approx(known[f"idle_{age}"], rel=1e-9)
        back = row["back_bytes_per_min"] * row["seen_share"]
        assert back == pytest.approx(known[f"returns_{age}"], rel=1e-6)
    for row in answers["savings"].rows.to_pylist():
        limit = {"strict": 0.001, "normal": 0.01, "loose": 0.05}[row["limit"]]
        assert row["slowdown_share"] <= limit


def test_a_tighter_limit_never_saves_more(sound: Any, opened: Any) -> None:
    answers = opened(sound).ask(QUESTIONS["savings"])
    saved = {"strict": 0.0, "normal": 0.0, "loose": 0.0}
    for row in answers[0].rows.to_pylist():
        saved[row["limit"]] += row["saves_lo_bytes"]
    assert saved["strict"] < saved["normal"] < saved["loose"]


@pytest.mark.parametrize("name", FLEETS)
def test_sizing(name: str, request: Any, opened: Any) -> None:
    made = request.getfixturevalue(name)
    found = rows(opened(made, price=3.0), "sizing", "sizing", "service")
    for service, row in found.items():
        known = made[1]["services"][service]
        assert row["need_bytes"] == pytest.approx(known["need"], rel=1e-9)
        if not known["request"]:
            # Of a service of which no request is known, nothing is too much.
            assert row["request_bytes"] is row["over_bytes"] is row["over_per_month_money"] is None
            continue
        assert row["request_bytes"] == pytest.approx(known["request"], rel=1e-9)
        money = row["over_bytes"] / 2**30 * 3
        assert row["over_per_month_money"] == pytest.approx(money)


@pytest.mark.parametrize("most", [1, 2000])
def test_sizing_of_some_hosts_at_a_time_is_the_same(most: int, damaged: Any, opened: Any) -> None:
    table = damaged[0] / "isotherm" / "v1" / "cgroups" / "date=2026-01-31"
    (table / "host=node-00007").rename(table / "host=it%27s%20%5B8%5D")
    whole, parted = opened(damaged), opened(damaged)
    parted.engine.most_rows = most
    groups = parted.catalog.host_groups("cgroups", most)
    named = sorted({part.host for part in parted.catalog.parts["cgroups"]})
    assert sorted(host for group in groups for host in group) == named
    assert len(groups) == {1: 24, 2000: 8}[most]
    known = rows(whole, "sizing", "sizing", "service")
    same = rows(parted, "sizing", "sizing", "service")
    assert same.keys() == known.keys()
    for service, row in same.items():
        for name, value in row.items():
            same_value = pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
            assert known[service][name] == same_value, (service, name)


@pytest.mark.parametrize("name", FLEETS)
def test_duplicate_files(name: str, request: Any, opened: Any) -> None:
    made = request.getfixturevalue(name)
    fleet = opened(made)
    found = rows(fleet, "sharing", "duplicates", "file")
    # Hosts whose cgroups cannot be believed are left out here, too; the truth has them.
    out = {n for n, fault in made[1]["faults"].items() if fault in ("impossible", "future")}
    whole = sum(row["duplicate_bytes"] for row in found.values())
    each = sum(k % 3 * ((k + 1) * 2**20 // 2) for k in range(12))
    assert whole == pytest.approx(made[1]["waste"] - each * len(out), rel=1e-9)
    for row in found.values():
        # Two processes in each of two cgroups map every place; a quarter of what is resident is idle.
        assert row["processes"] == 2 * row["cgroups"] == 4 * row["places"]
        assert row["idle_5m_bytes"] == row["resident_bytes"] / 4
        assert row["mapped_bytes"] == 4 * row["resident_bytes"]


def test_the_effect_of_a_rollout(sound: Any, opened: Any) -> None:
    answer = opened(sound).ask(QUESTIONS["rollout"])[0]
    row = answer.rows.to_pylist()[0]
    truth = sound[1]["effect"]
    assert row["acting"] == truth["hosts"]
    # Half a percent of what is used: the quarter in which it began is in neither mean.
    assert -row["effect"] == pytest.approx(truth["mean"], rel=0.25)
    assert row["lo"] <= row["effect"] <= row["hi"] < 0
    assert abs(row["placebo"]) < abs(row["effect"]) / 4


def test_policies_name_their_services(sound: Any, opened: Any) -> None:
    answer = opened(sound).ask(QUESTIONS["policies"])[0]
    assert answer.rows.num_rows == len(answer.texts) > 3
    text = answer.texts["shop_work-08.toml"]
    assert 'pod = "shop/work-08-*"' in text
    assert 'unit = "unit-12"' in answer.texts["unit-12.toml"]


def test_a_limit_of_nothing_recommends_what_never_comes_back(sound: Any, opened: Any) -> None:
    answer = opened(sound, max_slowdown=0.0, max_refaults=0.0).ask(QUESTIONS["policies"])[0]
    assert all(row["back_bytes_per_min"] == 0 for row in answer.rows.to_pylist())
    assert answer.rows.num_rows == len(answer.texts)
