"""``tallyfold tune`` and ``tallyfold rank``: parameters and the number of components to choose."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tallyfold.cli import model_parameters, options
from tallyfold.cli.options import option
from tallyfold.cli.progress import GO_ON, check_targets, end, interruptible, progress
from tallyfold.cli.terminal import number_of, print_json, say, say_dropped, show_frame
from tallyfold.errors import InferenceError, ParameterError, printable
from tallyfold.evaluation.search.study import SEARCH_FILE, shown_place

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.data.tensor import CountTensor
    from tallyfold.evaluation.search.rank import RankChoice, RankProgress
    from tallyfold.evaluation.search.result import Search
    from tallyfold.evaluation.search.tune import SearchProgress
    from tallyfold.models.base import CountModel

Folds = Annotated[int, option("K", "Parts of the cross-validation.")]
Metric = Annotated[str | None, option("NAME", "Score to choose by, if not the model's own.")]
HOLDOUT = "Share of the cells to set aside first, for a test that comes later."
Holdout = Annotated[float, option("SHARE", HOLDOUT, "--holdout", "--test-size")]
STORAGE = "SQLite file or URL of a database to keep trials in, to go on with or share."
Seed = Annotated[int, option("N", "Seed of the test part and of the folds.")]

TRIAL_FORMATS = {"trial": "d", "mean": ".4f", "se": ".4f", "seconds": ".1f"}
FIGURES = (".png", ".svg", ".pdf")
HEADS = {"difference": "behind", "difference_se": "its se"}
RANK_FORMATS = {
    "components": "d",
    **dict.fromkeys(("mean", "se", *HEADS.values()), ".4f"),
    "failed": "",
    "seconds": ".1f",
    "stability": ".3f",
}


@options.with_reading(*options.READING)
def tune(
    files: options.Files,
    reading: options.Reading,
    model: model_parameters.Model = None,
    zeros: model_parameters.Zeros = None,
    fixed: model_parameters.Set = None,
    space: Annotated[
        str | None,
        option("NAME|FILE", "A space by name, or a JSON file of choices; else the model's own."),
    ] = None,
    choices: Annotated[
        list[str] | None, option("NAME=A,B,...", "What to try for a parameter. Repeatable.")
    ] = None,
    trials: Annotated[int, option("N", "How many settings to try.")] = 20,
    folds: Folds = 5,
    metric: Metric = None,
    holdout: Holdout = 0.0,
    copies: options.Copies = None,
    seed: Seed = 0,
    storage: Annotated[str, option("FILE|URL", STORAGE)] = SEARCH_FILE,
    study: Annotated[
        str | None, option("NAME", "Name of the study; by default each search has its own.")
    ] = None,
    out: Annotated[
        Path | None, option("FILE", "Write the best parameters as JSON.", "--out", "-o")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Search for the parameters with which a model predicts best.

    Each trial is a k-fold cross-validation, and kept. Ctrl-C loses nothing:
    the same command goes on, and may run several times at once.

    \b
    [bold]Examples[/]
      tallyfold tune events.parquet --axes user,page,day --model bptf
      tallyfold tune counts.npz --model bptf --trials 30 \\
          --storage search.db --out best.json
      tallyfold tune counts.npz --model bptf --choices n_components=5,10 \\
          --choices prior_shape=0.1,1 --set likelihood=negative-binomial
    """  # noqa: D301
    from tallyfold.evaluation.search.tune import tune as search_for

    options.check_share("--holdout", holdout or None)
    check_targets({"--out": out})
    given = model_parameters.settings(fixed, zeros=zeros)
    chosen = model_parameters.chosen_model(model, None, given)
    tensor = reading.counts(files)
    say_dropped(tensor, aside=True)
    model_parameters.decide_zeros([chosen], tensor, silent=as_json)
    tensor = _training_part(tensor, holdout, seed, chosen, copies)
    with interruptible(GO_ON), progress() as shown:
        found = search_for(
            chosen,
            tensor,
            _space(space, choices),
            folds,
            trials,
            metric=metric,
            copies=copies,
            storage=storage,
            study=study,
            random_state=seed,
            callback=lambda step: shown(*_trial_step(step)),
        )
    has_best = found.finished_best() is not None
    if out is not None and has_best:
        found.save(out)
    if as_json:
        document = found.document() if has_best else {}
        print_json(document | {"rows": found.trials})
    else:
        _show_trials(found, out)
        say(f"trials are kept in {shown_place(storage)}")
    end(found.interrupted, has_best, kept=True)


def _space(space: str | None, choices: list[str] | None) -> Any:
    """Return the space that the options ask for; None for the model's own."""
    from tallyfold.evaluation.search.spaces import SPACES

    found: Any = space
    if space is not None and space not in SPACES:
        try:
            found = json.loads(Path(space).read_text("utf-8"))
        except FileNotFoundError:
            raise ParameterError(
                f"--space must be a JSON file or one of {', '.join(SPACES)}; got {space!r}."
            ) from None
        except ValueError as error:
            raise ParameterError(f"--space {space}: not JSON ({error}).") from None
    pairs = options.pairs("--choices", choices) or {}
    if not pairs:
        return found
    tried = {key: [_parsed(word) for word in options.names(pairs[key])] for key in pairs}
    return dict(SPACES.get(space or "", found or {})) | tried


def _parsed(text: str) -> Any:
    """Read a value: a number, true, false, null or a JSON list; anything else is a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _trial_step(step: "SearchProgress") -> tuple[float, int, str, bool]:
    ended = step.state != "running"
    done = step.trial if ended else step.trial - 1
    best = "" if step.best is None else f", best {step.best:.4f}"
    state = step.state if ended else f"fold {step.fold} of {step.folds}"
    mean = "" if step.score is None else f" {step.score:.4f}"
    words = f"trial {step.trial} of {step.trials}: {state}{mean}{best}"
    return done, step.trials, words, ended


def _show_trials(found: "Search", out: Path | None) -> None:
    folds = [f"fold_{fold + 1}" for fold in range(found.folds)]
    table = found.trials.drop(columns=[*folds, "error"])
    parameters = table.columns[2:-3]
    table[parameters] = table[parameters].map(str)
    table = table.assign(number=table["number"] + 1).rename(columns={"number": "trial"})
    title = f"Held-out {found.metric} over {found.folds} folds"
    show_frame(title, table, TRIAL_FORMATS)
    _show_errors(found.trials)
    running = int((found.trials["state"] == "running").sum())
    if running and not found.interrupted:
        say(f"{running} still running in another process: run this again when it is done.")
    if found.finished_best() is None:
        say("\nNo trial is complete, so there is no best.")
        return
    say("\nbest: " + ", ".join(f"{name}={value!r}" for name, value in found.best.items()))
    say(f"{found.metric} {found.best_score:.4f}, standard error {found.standard_error:.4f}")
    if out is not None:
        say(f"wrote {out}")


@options.with_reading(*options.READING)
def rank(
    files: options.Files,
    reading: options.Reading,
    model: model_parameters.Model = None,
    zeros: model_parameters.Zeros = None,
    fixed: model_parameters.Set = None,
    ranks: Annotated[str, option("A,B,...", "Numbers of components to try.")] = "1,2,3,5,8,13,20",
    best: Annotated[
        bool, option(None, "Choose the best, not the smallest within its error.", "--best")
    ] = False,
    stability: Annotated[
        bool, option(None, "Of those within its error, the most stable.", "--stability")
    ] = False,
    folds: Folds = 5,
    metric: Metric = None,
    holdout: Holdout = 0.0,
    copies: options.Copies = None,
    seed: Seed = 0,
    keep: Annotated[Path | None, option("FILE", "Keep scores here, to go on with later.")] = None,
    out: Annotated[Path | None, option("FILE", "Write the table as CSV.", "--out", "-o")] = None,
    plot: Annotated[Path | None, option("FILE", "Draw it: .png, .svg or .pdf.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Choose the number of components by cells that were held out.

    The smallest number is chosen that is not worse than the best by more than
    one standard error of the difference, over the same folds. With --stability
    it is not the smallest of these that is chosen, but the one whose components
    are most alike in the fits of different folds.

    \b
    [bold]Examples[/]
      tallyfold rank events.parquet --axes author,word,year --ranks 1,2,5,10
      tallyfold rank counts.npz --model bptf --out ranks.csv --plot ranks.png
      tallyfold rank counts.npz --keep ranks.json
      tallyfold rank papers.parquet --axes author,word,year --copies word
    """  # noqa: D301
    from tallyfold.data.formats.writing import written_whole
    from tallyfold.evaluation.search.rank import select_rank
    from tallyfold.report.plots import rank_curve

    if best and stability:
        raise ParameterError("--best and --stability exclude each other.")
    numbers = _ranks(ranks)
    options.check_share("--holdout", holdout or None)
    check_targets({"--out": out, "--plot": plot, "--keep": keep})
    if plot is not None and plot.suffix.lower() not in FIGURES:
        raise ParameterError(f"--plot must end in {', '.join(FIGURES)}; got {str(plot)!r}.")
    given = model_parameters.settings(fixed, zeros=zeros)
    estimator = model_parameters.chosen_model(model, None, given)
    tensor = reading.counts(files)
    say_dropped(tensor, aside=True)
    model_parameters.decide_zeros([estimator], tensor, silent=as_json)
    tensor = _training_part(tensor, holdout, seed, estimator, copies)
    with interruptible("nothing was kept. Use --keep FILE"), progress() as shown:
        found = select_rank(
            tensor,
            numbers,
            estimator,
            folds,
            not best,
            stability=stability,
            metric=metric,
            copies=copies,
            path=keep,
            random_state=seed,
            callback=lambda step: shown(*_rank_step(step, folds)),
        )
    chosen = _chosen(found)
    if out is not None:
        with written_whole(out) as target:
            found.table.to_csv(target, index=False)
    if plot is not None and chosen is not None:
        figure: Any = rank_curve(found).figure
        with written_whole(plot) as target:
            figure.savefig(target, dpi=150, bbox_inches="tight")
    if as_json:
        document = {
            "metric": found.metric,
            "chosen": chosen,
            "best": None if chosen is None else found.best,
            "table": found.table,
        }
        print_json(document)
    else:
        _show_ranks(found, chosen)
    end(found.interrupted, chosen is not None, keep is not None)


def _ranks(text: str) -> list[int]:
    words = options.names(text)
    if not words or not all(word.isdecimal() and len(word) < 10 for word in words):
        raise ParameterError(f"--ranks wants whole numbers such as 1,2,5,10; got {text!r}.")
    return [int(word) for word in words]


def _rank_step(step: "RankProgress", folds: int) -> tuple[int, int, str, bool]:
    score = "failed" if step.score is None else f"{step.score:.4f}"
    words = f"{number_of(step.components, 'component')}, fold {step.fold + 1} of {folds}: {score}"
    return step.number, step.total, words, True


def _chosen(found: "RankChoice") -> int | None:
    try:
        return found.chosen
    except InferenceError:
        return None


def _show_ranks(found: "RankChoice", chosen: int | None) -> None:
    table = found.table.drop(columns="folds").rename(columns=HEADS)
    table["failed"] = [failed or "" for failed in table["failed"]]
    show_frame(f"Held-out {found.metric}", table, RANK_FORMATS)
    _show_errors(found.scores)
    if chosen is None:
        say("\nNo number of components was scored in every fold.")
        return
    say(f"\nchosen: {number_of(chosen, 'component')} (best: {found.best})")
    if found.at_edge:
        say("It is the largest number that was tried: larger ones may be better still.")


def _training_part(
    tensor: "CountTensor", holdout: float, seed: int, model: "CountModel", copies: str | None
) -> "CountTensor":
    """Set a part of the counts aside if asked to."""
    from tallyfold.data.split import split
    from tallyfold.evaluation.holding_out import hidden_from

    if not holdout:
        return tensor
    hidden = hidden_from([model], tensor)
    groups = options.groups_of(tensor, copies)
    return split(tensor, holdout, cells=hidden, random_state=seed, groups=groups).train


def _show_errors(rows: "pd.DataFrame") -> None:
    """Print the first five errors of fits that failed."""
    for error in rows["error"].dropna().unique()[:5]:
        say(f"failed: {printable(error)}")
