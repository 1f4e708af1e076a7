"""What a fitted model has found: ``tallyfold components``, ``top``, ``profile`` and ``report``."""

from typing import TYPE_CHECKING, Annotated, Any

from rich.filesize import decimal

from tallyfold.cli import options
from tallyfold.cli.compare import Train
from tallyfold.cli.model_cells import Folder, Level, load_model
from tallyfold.cli.model_components import Component, component_of
from tallyfold.cli.model_counts import counts_given
from tallyfold.cli.options import AsJson, option
from tallyfold.cli.terminal import print_json, say, show_frame
from tallyfold.errors import ParameterError, printable

if TYPE_CHECKING:
    from tallyfold.models.base import CountModel

WEIGHTS = dict.fromkeys(("weight", "low", "high"), ".4f")
RANKED_BY = {
    "count": "largest predicted counts",
    "probability": "largest probabilities",
    "factors": "highest rates by factors alone",
}
SAME = 1e-9
"""Means that differ by a smaller share of themselves are the same."""
RATES = {"mean": ".4g", "sd": ".2g"}
FACTORS = {"component": "d", "share": ".3f", "mean": ".4g", "low": ".4g", "high": ".4g"}


By = Annotated[str | None, option("ORDER", "relevance (as it comes), sure, probability or frex.")]
Relevance = Annotated[
    float | None,
    option("SHARE", "From 0, what sets a component apart, to 1, what is likely in it."),
]


def components(
    folder: Folder,
    axis: Annotated[
        list[str] | None, option("AXIS", "Which axis. Repeatable; all if left out.")
    ] = None,
    most: Annotated[int, option("N", "How many labels of each.", "--top", min=1)] = 10,
    component: Component = None,
    by: By = None,
    relevance: Relevance = None,
    as_json: AsJson = False,
) -> None:
    """Show the strongest labels of each component, the largest component first.

    weight is a label's share of the component on its axis, with a 90 %
    interval. Labels come first that surely set a component apart from the others;
    with --by sure those that are surely strong. Components that the prior has
    switched off are counted only; --component shows one of them, too.

    \b
    [bold]Examples[/]
      tallyfold components model --axis word
      tallyfold components model --component 3 --top 20
      tallyfold components model --axis word --by probability
      tallyfold components model --axis word --json
    """  # noqa: D301
    import pandas as pd

    from tallyfold.models.explaining import beyond_main_effects

    model = load_model(folder)
    names = axis or [each.name for each in model.axes_]
    n_components = model.posterior_.n_components
    asked: dict[str, Any] = {"by": by, "relevance": relevance}
    if component is not None:
        asked["least"] = 0.0  # one that is asked for is shown
    frames = {name: model.components(name, most, **asked) for name in names}
    known = list(frames[names[0]]["component"].unique())
    chosen = known if component is None else [component_of(model, component)]
    if as_json:
        rows = pd.concat([frame.assign(axis=name) for name, frame in frames.items()])
        print_json(rows[rows["component"].isin(chosen)])
        return
    for number in chosen:
        for name, frame in frames.items():
            part = frame[frame["component"] == number]
            called, share = part["name"].iloc[0], 100 * part["share"].iloc[0]
            title = f"Component {number}, {called}, {share:.0f} % of the rate: {name}"
            if part.get("stability") is not None:
                title += f" (stability {part['stability'].iloc[0]:.2f})"
            show_frame(printable(title), part[["label", *WEIGHTS]], WEIGHTS)
            say("")
    _say_switched_off(n_components - len(known), n_components)
    if nothing := beyond_main_effects(model.posterior_):
        say(nothing)
    if all((frame["low"] == frame["high"]).all() for frame in frames.values()):
        say("This model has no posterior: low and high are the weight.")


def top(
    folder: Folder,
    axis: Annotated[str, option("AXIS", "The axis whose labels are ranked.")],
    given: Annotated[
        list[str] | None, option("AXIS=LABEL", "A label of another axis. Repeatable.", "--for")
    ] = None,
    most: Annotated[int, option("N", "How many.", "--top", min=1)] = 10,
    by: Annotated[
        str, option("ORDER", "count (predicted), probability of any, or factors alone.")
    ] = "count",
    seed: Annotated[int, option("N", "Seed of draws.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Show the labels of which most is predicted beside some given ones.

    mean is the predicted count of a cell, averaged over the axes that are not
    given, zeros included where these are observed. sd is what the uncertainty of the
    factors makes of it, no more: next to nothing where other parts decide.

    \b
    [bold]Examples[/]
      tallyfold top model --for author="Ada Lovelace" --axis word
      tallyfold top model --for author=Ann --for year=2010 --axis word --top 20
      tallyfold top model --for author=Ann --axis word --by probability
    """  # noqa: D301
    from tallyfold.evaluation.profiles import top as top_of

    model = load_model(folder)
    asked: dict[str, Any] = {}
    for text in given or []:
        name, label = _axis_and_label(model, "--for", text)
        if name in asked:
            raise ParameterError(f"--for is given twice for axis {name!r}.")
        asked[name] = label
    frame = top_of(model, axis, asked, top=most, by=by, random_state=seed)  # type: ignore[arg-type]
    if as_json:
        print_json(
            {"axis": axis, "for": asked, "by": by, "error": frame.attrs["error"], "top": frame}
        )
        return
    beside = ", ".join(f"{name} {label}" for name, label in asked.items()) or "anything"
    title = f"{printable(axis)}: {RANKED_BY[by]} beside {printable(beside)}"
    certain = not frame["sd"].any()
    show_frame(title, frame.drop(columns="sd") if certain else frame, RATES)
    means = frame["mean"]
    if len(means) > 1 and means.max() - means.min() <= SAME * means.max():
        say(
            f"\nAll of these are the same: the model knows nothing that tells labels of "
            f"{printable(axis)} apart here. tallyfold describe {printable(folder)} says what it "
            "learned."
        )
    if by == "count" and model.fitted_.parameters.get("zeros") == "missing":
        say("\nEmpty cells are unknown to this model: how many, given that there are any.")
    if frame.attrs["error"]:
        error = 100 * frame.attrs["error"]
        say(
            f"\nEstimated from cells drawn among too many to predict: standard error {error:.1g} %."
        )
    if certain:
        none = "is learned from margins, not from factors"
        why = (
            f"What is ranked {none}" if frame.attrs["posterior"] else "This model has no posterior"
        )
        say(f"\n{why}, so there is no sd.")


def profile(
    folder: Folder,
    of: Annotated[str, option("AXIS=LABEL", "The entity, such as author=Ann.")],
    level: Level = 0.9,
    as_json: AsJson = False,
) -> None:
    """Show an entity's factors, its strongest component first.

    share is a component's part in the entity's rate over all cells.

    \b
    [bold]Examples[/]
      tallyfold profile model --of author="Ada Lovelace"
      tallyfold profile model --of year=2010 --json
    """  # noqa: D301
    from tallyfold.evaluation.profiles import profile as profile_of

    model = load_model(folder)
    axis, label = _axis_and_label(model, "--of", of)
    frame = profile_of(model, axis, label, level=level)
    if as_json:
        print_json({"axis": axis, "label": label, "components": frame})
        return
    show_frame(f"{printable(axis)} {printable(label)}", frame, FACTORS)
    off = frame.attrs["switched_off"]
    _say_switched_off(off, off + len(frame))
    if not frame.attrs["posterior"]:
        say("\nThis model has no posterior: low and high are the mean.")


@options.with_reading(*options.READING_FOR_MODEL)
def report(
    folder: Folder,
    reading: options.Reading,
    out: Annotated[str, option("FILE", "The page to write.", "--out", "-o")] = "report.html",
    test: Annotated[list[str] | None, option("FILE", "Held-out counts, for scores.")] = None,
    train: Train = None,
    title: Annotated[str | None, option(None, "What stands at the top of the page.")] = None,
    show: Annotated[bool, option(None, "Open the page in a browser.", "--open")] = False,
    axes: options.Axes = None,
) -> None:
    """Write a page to explore a fitted model: one HTML file, without network or server.

    It shows the components, what is strongest in each on every axis with 90 %
    intervals, the profile of any label, and how far to trust the fit. With
    --train it has examples of each component, with --test, or --query in its
    place, scores. The data options say how to read counts; the axes are the
    model's.

    \b
    [bold]Examples[/]
      tallyfold report model --out report.html
      tallyfold report model --test test.parquet --train train.parquet --open
      tallyfold report model --test new.csv --value count
    """  # noqa: D301
    from tallyfold.report.explorer import write_report

    model = load_model(folder)
    known = [axis.name for axis in model.axes_]
    if axes is not None and set(options.names(axes)) != set(known):
        raise ParameterError(f"--axes must be the model's, {','.join(known)}; got {axes!r}.")
    file = write_report(
        model,
        out,
        test=counts_given(model, test, reading),
        train=counts_given(model, train, reading.of_files()),
        title=title,
        announce=lambda name: say(f"Fitting {name}, to compare ..."),
    )
    say(f"wrote {printable(file)} ({decimal(file.stat().st_size)})")
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())


def _say_switched_off(off: int, number: int) -> None:
    """Say how many components are not listed, since the prior has switched them off."""
    if off:
        say(f"{off} of {number} components are switched off: the data need no more.")


def _axis_and_label(model: "CountModel", option: str, text: str) -> tuple[str, Any]:
    """Read ``author=Ann`` into an axis of the model and a label of the type it has there.

    The model's axes decide where the name ends, so that both may have ``=`` in them.
    """
    from tallyfold.data.labels import label_from_text

    fitting = [axis for axis in model.axes_ if text.startswith(f"{axis.name}=")]
    if not fitting:
        names = ", ".join(axis.name for axis in model.axes_)
        raise ParameterError(
            f"{option} wants AXIS=LABEL, with one of the model's axes {names}; got {text!r}."
        )
    axis = max(fitting, key=lambda each: len(each.name))
    return axis.name, label_from_text(axis, text[len(axis.name) + 1 :])
