"""`mae` and `loglik`: six models on held-out cells (the paper's Tables 2 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyfold.evaluation.paper.line_up import BASELINES, FLAGSHIP, PAPER_FORM, PUBLISHED_NAME
from tallyfold.evaluation.paper.published import published_loglik, published_value
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.six_models import fits, hyper_parameters
from tallyfold.evaluation.paper.tables import means, side_by_side, tests_against

if TYPE_CHECKING:
    import pandas as pd

PAPERS_TEST = "p of the one-tailed paired t-test"


def mae(setting: Setting) -> Reproduction:
    """Mean absolute error of six models on each data set."""
    as_paper, same = fits(setting)
    table = side_by_side(
        {
            "as the paper ran it": means(as_paper, "mae-mean"),
            "zeros missing": means(same, "mae-mean"),
            "zeros missing, median": means(same, "mae-median"),
            "log pmf given y >= 1": means(same, "log-pmf-positive"),
        },
        published=lambda dataset, model: published_value(
            "mae", dataset, PUBLISHED_NAME.get(model, ""), "MAE"
        ),
    )
    return Reproduction(
        {
            "Mean absolute error": table,
            "VAE-BPTF against each model, over data sets": _with_published_p(
                _tests(as_paper, same, "mae-mean")
            ),
        },
        [
            hyper_parameters(setting),
            "published: the paper's Table 2, its model being the paper's form.",
            "as the paper ran it: MAE of the mean; VAE-BPTF leaves zeros out, the others are "
            "taught that every empty cell is a zero (MLP-TF: three drawn zeros a count), and are "
            "then asked about cells that all have a count.",
            "zeros missing: MAE of the predicted mean, and of the predicted median, all models "
            "without the zeros. The best answer under MAE is a median: a column that compares "
            "means rewards luck.",
            "p, published: of the paper's one-tailed paired t-test over its five data sets.",
        ],
    )


def loglik(setting: Setting) -> Reproduction:
    """Log-likelihood of the held-out cells, per cell."""
    as_paper, same = fits(setting)
    table = side_by_side(
        {
            "as the paper ran it": means(_with_likelihood(as_paper), "paper-form"),
            "zeros missing": means(same, "paper-form-at-mean"),
            "coverage of 80 %": means(same, "coverage-80"),
            "plug-in": means(same, "log-pmf-plug-in"),
            "log pmf given y >= 1": means(same, "log-pmf-positive"),
        },
        published=lambda dataset, model: published_loglik(
            "loglik", dataset, PUBLISHED_NAME.get(model, "")
        ),
    )
    return Reproduction(
        {
            "Log-likelihood per held-out cell": table,
            "VAE-BPTF against each model, over data sets": _tests(
                as_paper, same, "log-pmf-positive"
            ),
        },
        [
            hyper_parameters(setting),
            "published: the paper's Table 3 divided by a fifth of its cells. It leaves out ln y!, "
            "so a value can be above 0, and it is no probability.",
            "as the paper ran it: y ln(rate) - rate, as in the paper, which gives none for NTF-LS "
            "and MLP-TF: squared errors have no likelihood.",
            "zeros missing: the same form at the predicted mean m of a count given that it is "
            "seen, y ln(m) - m. log pmf given y >= 1: the full log predictive pmf, a proper score; "
            "plug-in: the same at the mean rates, without the posterior's spread.",
            "coverage of 80 %: how often a held-out count falls in its central 80 % interval; "
            "0.80 is right.",
        ],
    )


def _with_likelihood(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out the models that the paper gives no likelihood for."""
    return rows[~rows["model"].isin(["NTF-LS", "MLP-TF"])]


def _tests(as_paper: pd.DataFrame, same: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the paper's t-test, and Wilcoxon's, of VAE-BPTF against the others."""
    import pandas as pd

    paper_metric = "mae-mean" if metric == "mae-mean" else "paper-form"
    rows = as_paper if metric == "mae-mean" else _with_likelihood(as_paper)
    baselines = [name for name in BASELINES if name in set(rows["model"])]
    parts = [tests_against(rows, PAPER_FORM, baselines, paper_metric, "as the paper ran it")]
    others = [name for name in dict.fromkeys(same["model"]) if name != FLAGSHIP]
    parts.append(tests_against(same, FLAGSHIP, others, metric, "zeros missing"))
    return pd.concat(parts, ignore_index=True)


def _with_published_p(tests: pd.DataFrame) -> pd.DataFrame:
    """Put the p that the paper printed beside ours."""
    pairs = zip(tests["model"].map(PUBLISHED_NAME), tests["against"], strict=True)
    said = [
        published_value("mae", "all", f"{model} against {other}", PAPERS_TEST)
        for model, other in pairs
    ]
    tests.insert(list(tests.columns).index("score") + 1, "p, published", said)
    return tests
