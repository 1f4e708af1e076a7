"""Single components of a fitted model: ``tallyfold explain`` and ``tallyfold edit``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tallyfold.cli import model_folder, options
from tallyfold.cli.model_cells import Folder, NewFolder, UnknownCells, load_model
from tallyfold.cli.model_counts import counts_given, known_cells, unknown_choices
from tallyfold.cli.options import AsJson, Reading, option
from tallyfold.cli.terminal import print_json, say, show_frame
from tallyfold.errors import ParameterError, printable

if TYPE_CHECKING:
    from tallyfold.models.base import CountModel

LIKE = {"component": "d", "share": ".3f", "overlap": ".3f"}
COURSE = dict.fromkeys(("weight", "low", "high"), ".4f") | {"part": ".3f"}
EXAMPLES = {"count": ",d", "share": ".3f"}

Component = Annotated[str | None, option("K|NAME", "A component, by its number or its name.")]


def component_of(model: "CountModel", text: str) -> int:
    """Return the number of a component that is given by its number or its name."""
    from tallyfold.posterior.component_names import number_of

    return number_of(_number_or_name(text), model.component_names_)


def _number_or_name(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 10 else text


@options.with_reading(*options.READING_FOR_MODEL)
def explain(
    folder: Folder,
    reading: Reading,
    component: Component = None,
    counts: Annotated[
        list[str] | None, option("FILE", "Counts to take examples from. Repeatable.")
    ] = None,
    combinations: Annotated[
        str | None, option("A,B,...", "Combinations of these axes as examples, not whole cells.")
    ] = None,
    course: Annotated[
        str | None, option("AXIS", "Its course along an axis with an order, such as years.")
    ] = None,
    most: Annotated[int, option("N", "How many examples.", "--top", min=1)] = 10,
    unknown: UnknownCells = None,
    as_json: AsJson = False,
) -> None:
    """Explain a component: cells that show it best, components like it, its course.

    Without --component, a tree of all components, the most alike joined first.
    share, of an example, is the component's part of the cell's rate. overlap is
    one for a component that says the same of all labels, zero for one that has
    none in common. part is the component's part of a label's whole rate.

    \b
    [bold]Examples[/]
      tallyfold explain model
      tallyfold explain model --component 3 --counts train.parquet --value count
      tallyfold explain model --component networking --course year
    """  # noqa: D301
    model = load_model(folder)
    if component is None:
        if counts or reading.query or combinations or course:
            raise ParameterError(
                "--counts, --query, --combinations and --course are of one --component; name it."
            )
        _show_tree(model, as_json)
        return
    if combinations and not (counts or reading.query):
        raise ParameterError(
            "--combinations needs --counts FILE, or --query, to take examples from."
        )
    number = component_of(model, component)
    found: dict[str, Any] = {}
    if (given := counts_given(model, counts, reading)) is not None:
        choices = unknown_choices(model, unknown, "error", "skip")
        cells = known_cells(model, given, choices)
        axes = None if combinations is None else options.names(combinations)
        found["examples"] = model.examples(number, cells, of=axes, top=most)
    if course is not None:
        found["course"] = model.course(number, course)
    found["similar"] = model.similar(number)
    name, share = model.component_names_[number], model.posterior_.shares()[number]
    if as_json:
        print_json({"component": number, "name": name, "share": float(share)} | found)
        return
    say(f"Component {number}, {printable(name)}: {100 * share:.0f} % of the rate\n")
    overlaps = {head: ".3f" for head in found["similar"].columns if head.startswith("on ")}
    titles = {
        "examples": ("What shows it best", EXAMPLES),
        "course": (f"Its course along {printable(course or '')}", COURSE),
        "similar": ("Components like it", LIKE | overlaps),
    }
    for what, frame in found.items():
        title, formats = titles[what]
        show_frame(title, frame, formats, spare=list(overlaps) if what == "similar" else ())
        say("")


def _show_tree(model: "CountModel", as_json: bool) -> None:
    tree = model.tree()
    if as_json:
        names = dict(zip(map(str, tree.numbers), tree.names, strict=True))
        print_json({"names": names, "joins": tree.to_frame()})
        return
    say("Components, the most alike side by side\n")
    for line in tree.lines():
        say(printable(line))


@options.with_reading(*options.READING_FOR_MODEL)
def edit(
    folder: Folder,
    out: NewFolder,
    reading: Reading,
    rename: Annotated[list[str] | None, option("K=NAME", "Name a component. Repeatable.")] = None,
    merge: Annotated[
        list[str] | None, option("K,L,...", "Make one of some components. Repeatable.")
    ] = None,
    drop: Annotated[
        list[str] | None, option("K,L,...", "Leave components out. Repeatable.")
    ] = None,
    test: Annotated[list[str] | None, option("FILE", "Held-out counts, for scores.")] = None,
    overwrite: model_folder.Overwrite = False,
) -> None:
    """Name the components of a model, put some together, or leave some out.

    Components are given by number or by name, all as they are in MODEL; a name
    with a comma goes in double quotes. A merged component expects of every label
    what its parts expect of it together. Dropped ones are gone from predictions.
    In the new model components are numbered by size again.

    \b
    [bold]Examples[/]
      tallyfold edit model --rename 3=networking --out model2
      tallyfold edit model --merge 3,7 --drop 9 --test test.npz --out model2
      tallyfold edit model --merge 3,7 --rename 3=mail --out model --overwrite
    """  # noqa: D301
    from tallyfold.models.editing import Edit

    if not (rename or merge or drop):
        raise ParameterError("there is nothing to do: give --rename, --merge or --drop.")
    model = load_model(folder)
    asked = Edit(
        _new_names(rename), [_listed(text) for text in merge or []],
        [each for text in drop or [] for each in _listed(text)],
    )  # fmt: skip
    with model_folder.held_model_folder(out, overwrite):
        cells = counts_given(model, test, reading)
        new = model.edit(**asked._asdict(), cells=cells)
        new.save(out)
        model_folder.clear_checkpoint(out)
    done = new.fitted_.edits[-1]
    say(f"wrote {printable(out)}: {printable(done.what)}")
    if done.before is not None:
        say(f"score on held-out cells: {done.before:.4f} before, {done.after:.4f} after")


def _new_names(texts: Sequence[str] | None) -> dict[int | str, str | None] | None:
    """Read ``3=networking`` texts; ``3=`` gives a component its automatic name again."""
    found: dict[int | str, str | None] = {}
    for text in texts or []:
        component, sign, name = text.partition("=")
        if not sign or not component:
            raise ParameterError(f"--rename wants K=NAME, such as 3=networking; got {text!r}.")
        found[_number_or_name(component)] = name or None
    return found or None


def _listed(text: str) -> list[int | str]:
    return [_number_or_name(name) for name in options.names(text)]
