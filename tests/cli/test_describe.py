"""What ``tallyfold describe`` says beyond the basics, which ``test_cli`` has."""

import json

import tallyfold as tf
from tallyfold.inference.fit.progress import duration
from tallyfold.models.fit_cost import fit_cost


def test_the_cost_of_a_fit_is_told(run, events, tensor):
    given = ("describe", events, "--axes", "author,word,year", "--value", "count")
    cost = fit_cost(tensor)
    line = f"roughly {duration(cost.least_seconds)} to {duration(cost.most_seconds)}"
    assert line in run(*given).out
    fit = json.loads(run(*given, "--json").out)["fit"]
    assert fit["model"] == "vae-bptf"
    assert fit["bytes"] == cost.bytes


def test_the_cost_grows_with_cells_and_components():
    small = tf.simulate((40, 30, 10), 2, density=0.1).tensor
    large = tf.simulate((40, 30, 10), 2, density=0.4).tensor
    assert fit_cost(large).most_seconds > fit_cost(small).most_seconds
    assert fit_cost(large).bytes > 3 * fit_cost(small).bytes / 2
    assert fit_cost(small, 50).bytes > fit_cost(small, 10).bytes
    # nips of docs/results has 602,602 training cells, and takes some 110 seconds
    ratio = 602_602 / large.nnz
    least, most, _ = fit_cost(large)
    assert (least - 1) * ratio < 110 < (most - 4) * ratio


def test_labels_that_are_alike_are_told(run, tmp_path):
    (tmp_path / "x.csv").write_text("who,what\nann,x\nAnn ,y\nbob,x\n ann,y\n")
    given = ("describe", tmp_path / "x.csv", "--axes", "who,what")
    told = " ".join(run(*given).out.split())
    assert "who: 2 labels differ from others in spaces or case alone: 'Ann ', 'ann'" in told
    assert told.count("in spaces or case alone") == 1
    assert json.loads(run(*given, "--json").out)["axes"][1]["alike"] == []


def test_bins_that_come_back_are_no_memory(run, tmp_path):
    (tmp_path / "x.csv").write_text("who,day\na,2024-01-01\nb,2024-01-02\na,2024-01-03\n")
    given = ("describe", tmp_path / "x.csv", "--axes", "who,day", "--bin")
    assert "the memory of periods" not in " ".join(run(*given, "day=weekday").out.split())
    assert "the memory of periods" in " ".join(run(*given, "day=day").out.split())


def test_events_may_come_through_a_pipe(run, frame):
    text = frame.to_csv(index=False)
    given = ("--axes", "author,word,year", "--value", "count", "--json")
    assert json.loads(run("describe", "-", *given, stdin=text).out)["cells"] == len(frame)


def test_a_pipe_and_a_file_do_not_go_together(run, events):
    result = run("describe", "-", events, "--axes", "author,word")
    assert result.code == 2
    assert "standard input" in result.err


def test_a_model_is_described_with_its_gate(run, events, tmp_path):
    out = tmp_path / "model"
    given = ("--model", "bptf", "--components", "2", "--max-iter", "3", "--zeros", "observed")
    fit = ("fit", events, "--axes", "author,word,year", "--value", "count", *given)
    gate = ("--set", 'gate=["author", "year"]')
    assert "zeros observed, gate author x year" in run(*fit, *gate, "--out", out).out
    said = run("describe", out)
    assert (said.code, said.err) == (0, "")
    assert "model: bptf\n" in said.out
    assert "gate: author × year\nactive pairs: the gate says them, not the components" in said.out
    assert "n_components=2" in said.out
    assert json.loads(run("describe", out, "--json").out)["gate"] == ["author", "year"]
    again = run(*fit, "--out", out, "--overwrite", "--json").out
    assert json.loads(again)["gate"] is None
    assert "gate: none\n" in run("describe", out).out
