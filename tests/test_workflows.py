"""The workflows: valid, without secrets, and with no more rights than they need."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.scripts import script

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Who may publish: only the job that uploads a release.
RIGHTS = {("release.yml", "publish"): {"id-token": "write", "attestations": "write",
                                       "contents": "write"}}  # fmt: skip
KNOWN = {"actions", "pypa"}
each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


def _read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _steps(path):
    return [step for job in _read(path)["jobs"].values() for step in job["steps"]]


def test_there_is_a_workflow_for_changes_and_one_for_releases():
    assert [path.name for path in FILES] == ["check.yml", "release.yml"]


@each
def test_a_workflow_has_jobs_that_end(path):
    workflow = _read(path)
    assert workflow[True]  # YAML 1.1 reads the key `on` as true
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 120, name
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= workflow["jobs"].keys()
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step


@each
def test_a_workflow_has_no_secrets_and_no_more_rights_than_it_needs(path):
    assert "secrets." not in path.read_text(encoding="utf-8")
    workflow = _read(path)
    assert set(workflow["permissions"].values()) <= {"read"}
    for name, job in workflow["jobs"].items():
        given = job.get("permissions", {})
        extra = {right: value for right, value in given.items() if value != "read"}
        assert extra == RIGHTS.get((path.name, name), {}), name


@each
def test_actions_have_a_known_owner_and_a_version(path):
    for step in _steps(path):
        if "uses" in step:
            found = re.fullmatch(r"([\w-]+)/[\w-]+@(v\d+|release/v\d+)", step["uses"])
            assert found, step["uses"]
            assert found[1] in KNOWN


@each
def test_a_command_holds_no_text_that_others_can_choose(path):
    """A branch or a tag may be named like a command; it has to go through a variable."""
    for step in _steps(path):
        assert "${{" not in step.get("run", ""), step


@each
def test_commands_name_targets_and_scripts_that_exist(path):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for step in _steps(path):
        command = step.get("run", "")
        assert set(re.findall(r"\bmake ([\w-]+)", command)) <= targets
        for path_of_script in re.findall(r"\bscripts/\w+\.py", command):
            assert (ROOT / path_of_script).is_file()


def _project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_python_that_the_package_names_is_tested():
    named = [c.rpartition(" ")[2] for c in _project()["classifiers"] if "Python :: 3." in c]
    jobs = _read(FILES[0])["jobs"]
    assert jobs["wheel"]["strategy"]["matrix"]["python"] == named
    (versions,) = (
        step["with"]["python-version"]
        for step in jobs["matrix"]["steps"]
        if "setup-python" in step.get("uses", "")
    )
    assert sorted(versions.split()) == named
    cells = script("matrix").CELLS
    assert {cell.python for cell in cells.values()} == {None, *named}


def test_the_lower_bound_of_every_extra_is_tested():
    cells = script("matrix").CELLS
    tested = {extra for cell in cells.values() if cell.lowest for extra in cell.extras}
    assert tested == _project()["optional-dependencies"].keys() - {
        "bench",
        "dev",
        "docs",
        "mutants",
    }


def test_the_tests_of_every_cell_exist():
    for cell in script("matrix").CELLS.values():
        for name in cell.tests:
            assert (ROOT / "tests" / f"test_{name}.py").is_file(), name


def test_a_release_is_tested_listed_and_attested_before_it_is_uploaded():
    steps = [step.get("uses", step.get("run", "")) for step in _steps(FILES[1])]
    order = ["python -m build", "matrix.py", "cyclonedx-py", "attest-build-provenance",
             "attest-sbom", "gh-action-pypi-publish"]  # fmt: skip
    places = [next(i for i, step in enumerate(steps) if part in step) for part in order]
    assert places == sorted(places)
