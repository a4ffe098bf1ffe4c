"""The commands, as a user runs them."""

import dataclasses
import json

import pytest
from click.testing import CliRunner
from draftproof.fast.decoding import experiments as ex
from draftproof.fast.decoding.cli import experiment, generate


@pytest.fixture
def run():
    return CliRunner().invoke


def test_generate_streams_text_from_the_shipped_pair(run):
    result = run(generate, ["--prompt", "In the beginning", "--max-new-tokens", "40"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("In the beginning")
    assert len(result.stdout) > 50
    again = run(generate, ["--prompt", "In the beginning", "--max-new-tokens", "40"])
    assert again.stdout == result.stdout
    other = run(generate, ["--prompt", "In the beginning", "--max-new-tokens", "40", "--seed", "9"])
    assert other.stdout != result.stdout


def test_generate_reports_and_writes_json(run, tmp_path):
    file = tmp_path / "report.json"
    arguments = ["--prompt", "Blessed", "--prompt", "And God said", "--scheme", "block"]
    arguments += ["--max-new-tokens", "24", "--temperature", "0", "--report", "--json", str(file)]
    result = run(generate, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert (report["scheme"], report["drafts"], report["prompts"]) == ("block", 1, 2)
    assert report["speed_up"] > 0
    assert [g["seed"] for g in report["generations"]] == [0, 1]
    assert "block efficiency" in result.stderr
    for generation in report["generations"]:
        assert generation["prompt"] + generation["text"] in result.stdout
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheme", "nonsense"], "scheme is 'nonsense'"),
        (["--drafts", "0"], "drafts is 0"),
        (["--length", "0"], "length is 0"),
        (["--scheme", "block", "--drafts", "3"], "verifies one draft"),
        (["--max-new-tokens", "600"], "needs a context of"),
        (["--temperature", "-1"], "temperature is -1"),
        (["--target", "somewhere"], "give both --target and --draft"),
        (["--target", "/nowhere", "--draft", "/nowhere"], "cannot be loaded"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--method", "nowhere:f"], "cannot import nowhere"),
        (["--method", "nowhere:f", "--scheme", "block"], "--scheme or --method, not both"),
        (["--scheme", "spectr", "--distinct"], "scheme spectr needs independent drafts"),
    ],
)
def test_bad_input_exits_2_with_one_message(arguments, message, run):
    result = run(generate, ["--prompt", "And", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


OWN = """
import dataclasses
from draftproof.fast import verify

def mine(batch, uniforms, carry):
    return verify("spectr", batch, uniforms)

def boasting(batch, uniforms, carry):
    result = verify("spectr", batch, uniforms)
    return dataclasses.replace(result, accepted_length=result.accepted_length + 9)
"""


def test_generate_takes_a_function_of_the_users_own(run, tmp_path, monkeypatch):
    (tmp_path / "my_own_verifier.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    arguments = ["--prompt", "And God said", "--max-new-tokens", "30", "--json", "report.json"]
    own = run(generate, [*arguments, "--method", "my_own_verifier:mine"])
    assert own.exit_code == 0, own.output
    assert json.loads((tmp_path / "report.json").read_text())["scheme"] == "my_own_verifier:mine"
    assert own.stdout == run(generate, [*arguments, "--scheme", "spectr"]).stdout
    bad = run(generate, [*arguments, "--method", "my_own_verifier:boasting"])
    assert bad.exit_code == 2
    assert "my_own_verifier:boasting returned accepted_length[0] = " in bad.stderr
    assert "Traceback" not in bad.output


def test_generate_draws_distinct_drafts(run):
    arguments = ["--prompt", "And God said", "--max-new-tokens", "30", "--drafts", "3"]
    texts = [
        run(generate, [*arguments, "--scheme", "tree_match", option])
        for option in ("--distinct", "--independent")
    ]
    assert [result.exit_code for result in texts] == [0, 0]


def test_generate_stops_at_a_string(run):
    arguments = ["--prompt", "And God said", "--max-new-tokens", "80", "--seed", "3"]
    whole = run(generate, arguments).stdout
    cut = run(generate, [*arguments, "--stop", " the "]).stdout
    assert whole.startswith(cut.rstrip("\n"))
    assert " the " not in cut[len("And God said") :]


@pytest.fixture
def few(monkeypatch):
    cells = [
        dataclasses.replace(ex.cell(scheme, 2, 3), prompts=2, tokens=16)
        for scheme in ("block", "spectr")
    ]
    monkeypatch.setattr(ex, "CELLS", {"methods": lambda: iter(cells)})
    monkeypatch.setattr(ex, "UNTIMED_PARTS", ("methods",))
    return cells


def test_experiment_measures_writes_and_resumes(run, few, tmp_path, monkeypatch):
    file = tmp_path / "results.jsonl"
    out = ["--out", str(file)]
    result = run(experiment, ["methods", *out])
    assert result.exit_code == 0, result.output
    lines = file.read_text()
    assert {json.loads(line)["key"] for line in lines.splitlines()} == {c.key for c in few}
    measure = ex.run

    def refuse(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(ex, "run", refuse)
    page = tmp_path / "page.md"
    page.write_text("<!-- table: methods -->\n<!-- end -->\n")
    figures = tmp_path / "figures"
    result = run(experiment, ["untimed", *out, "--page", str(page), "--figures", str(figures)])
    assert result.exit_code == 0, result.output
    assert file.read_text() == lines
    assert "| method |" in page.read_text()
    assert {file.suffix for file in figures.iterdir()} == {".png"}
    monkeypatch.setattr(ex, "run", lambda *arguments: {**measure(*arguments), "new": 1})
    assert run(experiment, ["methods", "--again", *out]).exit_code == 0
    assert file.read_text().count('"new": 1') == 2 == len(file.read_text().splitlines())


def test_an_interrupted_experiment_says_how_to_go_on(run, few, tmp_path, monkeypatch):
    measure = ex.run
    done = []

    def interrupted(*arguments):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return measure(*arguments)

    file = tmp_path / "new" / "results.jsonl"
    monkeypatch.setattr(ex, "run", interrupted)
    result = run(experiment, ["methods", "--out", str(file)])
    assert result.exit_code == 130
    assert "goes on from there" in result.stderr
    assert len(file.read_text().splitlines()) == 1
    monkeypatch.setattr(ex, "run", measure)
    assert run(experiment, ["methods", "--out", str(file)]).exit_code == 0
    assert len(file.read_text().splitlines()) == 2


def test_an_unknown_experiment_is_named(run, tmp_path):
    result = run(experiment, ["nonsense", "--out", str(tmp_path / "x.jsonl")])
    assert result.exit_code == 2
    assert "there is no experiment 'nonsense'; there are untimed, timed, methods" in result.stderr
