"""Hidden structure in sparse count data of many axes.

The public names are looked up on first use, so that ``import tallyfold`` stays instant and loads
none of the numerical packages.

Examples
--------
>>> import tallyfold as tf
>>> tensor = tf.load_demo()
>>> tensor.names
('module', 'word', 'place')
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallyfold import errors
from tallyfold.version import __version__

if TYPE_CHECKING:
    from tallyfold.data.axis import Axis
    from tallyfold.data.demo import load_demo
    from tallyfold.data.formats import read_counts, write_counts
    from tallyfold.data.query import read_query
    from tallyfold.data.simulate import simulate
    from tallyfold.data.split import k_folds, split, split_entities, split_time, subsample
    from tallyfold.data.tensor import CountTensor
    from tallyfold.evaluation.compare import compare
    from tallyfold.evaluation.experiment import Experiment
    from tallyfold.evaluation.metrics import METRICS
    from tallyfold.evaluation.search.rank import select_rank
    from tallyfold.evaluation.search.spaces import SPACES
    from tallyfold.evaluation.search.tune import tune
    from tallyfold.evaluation.surprise import surprise
    from tallyfold.inference.distributed.scatter import scatter
    from tallyfold.inference.distributed.torch_group import many_processes
    from tallyfold.models.bptf import BPTF
    from tallyfold.models.constant import Constant
    from tallyfold.models.gibbs_bptf import GibbsBPTF
    from tallyfold.models.main_effects import MainEffects
    from tallyfold.models.mlp_tf import MLPTF
    from tallyfold.models.ntf_ls import NTFLS
    from tallyfold.models.online_gibbs_bptf import OnlineGibbsBPTF
    from tallyfold.models.paper_vae_bptf import PaperVAEBPTF
    from tallyfold.models.ptf_kl import PTFKL
    from tallyfold.models.registry import MODELS
    from tallyfold.models.storage import load
    from tallyfold.models.vae_bptf import VAEBPTF
    from tallyfold.paper.datasets import DATASETS, build_dataset
    from tallyfold.report.explorer import write_report

__all__ = [
    "BPTF",
    "DATASETS",
    "METRICS",
    "MLPTF",
    "MODELS",
    "NTFLS",
    "PTFKL",
    "SPACES",
    "VAEBPTF",
    "Axis",
    "Constant",
    "CountTensor",
    "Experiment",
    "GibbsBPTF",
    "MainEffects",
    "OnlineGibbsBPTF",
    "PaperVAEBPTF",
    "__version__",
    "build_dataset",
    "compare",
    "errors",
    "k_folds",
    "load",
    "load_demo",
    "many_processes",
    "read_counts",
    "read_query",
    "scatter",
    "select_rank",
    "simulate",
    "split",
    "split_entities",
    "split_time",
    "subsample",
    "surprise",
    "tune",
    "write_counts",
    "write_report",
]

_HOMES = {
    "DATASETS": "tallyfold.paper.datasets",
    "build_dataset": "tallyfold.paper.datasets",
    "Experiment": "tallyfold.evaluation.experiment",
    "METRICS": "tallyfold.evaluation.metrics",
    "SPACES": "tallyfold.evaluation.search.spaces",
    "tune": "tallyfold.evaluation.search.tune",
    "select_rank": "tallyfold.evaluation.search.rank",
    "compare": "tallyfold.evaluation.compare",
    "scatter": "tallyfold.inference.distributed.scatter",
    "many_processes": "tallyfold.inference.distributed.torch_group",
    "load": "tallyfold.models.storage",
    "MODELS": "tallyfold.models.registry",
    "MainEffects": "tallyfold.models.main_effects",
    "PTFKL": "tallyfold.models.ptf_kl",
    "VAEBPTF": "tallyfold.models.vae_bptf",
    "PaperVAEBPTF": "tallyfold.models.paper_vae_bptf",
    "NTFLS": "tallyfold.models.ntf_ls",
    "MLPTF": "tallyfold.models.mlp_tf",
    "Constant": "tallyfold.models.constant",
    "BPTF": "tallyfold.models.bptf",
    "GibbsBPTF": "tallyfold.models.gibbs_bptf",
    "OnlineGibbsBPTF": "tallyfold.models.online_gibbs_bptf",
    "Axis": "tallyfold.data.axis",
    "CountTensor": "tallyfold.data.tensor",
    "k_folds": "tallyfold.data.split",
    "load_demo": "tallyfold.data.demo",
    "read_counts": "tallyfold.data.formats",
    "read_query": "tallyfold.data.query",
    "simulate": "tallyfold.data.simulate",
    "split": "tallyfold.data.split",
    "split_entities": "tallyfold.data.split",
    "split_time": "tallyfold.data.split",
    "subsample": "tallyfold.data.split",
    "surprise": "tallyfold.evaluation.surprise",
    "write_counts": "tallyfold.data.formats",
    "write_report": "tallyfold.report.explorer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tallyfold' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next look-up is a plain one
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
