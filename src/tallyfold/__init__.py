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
    from tallyfold.data.axis import Axis as Axis
    from tallyfold.data.axis_order import AxisOrder as AxisOrder
    from tallyfold.data.cross_validator import cross_validator as cross_validator
    from tallyfold.data.demo import load_demo as load_demo
    from tallyfold.data.formats import read_counts as read_counts
    from tallyfold.data.formats import write_counts as write_counts
    from tallyfold.data.near_copies import near_copies as near_copies
    from tallyfold.data.query import read_query as read_query
    from tallyfold.data.simulate import simulate as simulate
    from tallyfold.data.split import k_folds as k_folds
    from tallyfold.data.split import split as split
    from tallyfold.data.split import split_entities as split_entities
    from tallyfold.data.split import split_time as split_time
    from tallyfold.data.split import subsample as subsample
    from tallyfold.data.store import Store as Store
    from tallyfold.data.store import open_store as open_store
    from tallyfold.data.store import write_store as write_store
    from tallyfold.data.tensor import CountTensor as CountTensor
    from tallyfold.evaluation.backtest import backtest as backtest
    from tallyfold.evaluation.compare import compare as compare
    from tallyfold.evaluation.drift import drift as drift
    from tallyfold.evaluation.experiment import Experiment as Experiment
    from tallyfold.evaluation.metrics import METRICS as METRICS
    from tallyfold.evaluation.next_periods import next_periods as next_periods
    from tallyfold.evaluation.next_totals import next_totals as next_totals
    from tallyfold.evaluation.profiles import components as components
    from tallyfold.evaluation.profiles import profile as profile
    from tallyfold.evaluation.profiles import top as top
    from tallyfold.evaluation.search.rank import select_rank as select_rank
    from tallyfold.evaluation.search.spaces import SPACES as SPACES
    from tallyfold.evaluation.search.tune import tune as tune
    from tallyfold.evaluation.stability import stability as stability
    from tallyfold.evaluation.surprise import surprise as surprise
    from tallyfold.inference.distributed.scatter import scatter as scatter
    from tallyfold.inference.distributed.torch_group import many_processes as many_processes
    from tallyfold.models.bptf import BPTF as BPTF
    from tallyfold.models.constant import Constant as Constant
    from tallyfold.models.forecasting import SmoothedPast as SmoothedPast
    from tallyfold.models.gibbs_bptf import GibbsBPTF as GibbsBPTF
    from tallyfold.models.last_periods import LastValue as LastValue
    from tallyfold.models.last_periods import MovingAverage as MovingAverage
    from tallyfold.models.last_periods import SeasonalNaive as SeasonalNaive
    from tallyfold.models.main_effects import MainEffects as MainEffects
    from tallyfold.models.margins import Margins as Margins
    from tallyfold.models.mlp_tf import MLPTF as MLPTF
    from tallyfold.models.ntf_ls import NTFLS as NTFLS
    from tallyfold.models.online_gibbs_bptf import OnlineGibbsBPTF as OnlineGibbsBPTF
    from tallyfold.models.paper_vae_bptf import PaperVAEBPTF as PaperVAEBPTF
    from tallyfold.models.ptf_kl import PTFKL as PTFKL
    from tallyfold.models.registry import MODELS as MODELS
    from tallyfold.models.storage import load as load
    from tallyfold.models.vae_bptf import VAEBPTF as VAEBPTF
    from tallyfold.paper.datasets import DATASETS as DATASETS
    from tallyfold.paper.datasets import build_dataset as build_dataset
    from tallyfold.report.explorer import explore as explore
    from tallyfold.report.explorer import write_report as write_report

_NAMES = {
    "tallyfold.data.axis": ["Axis"],
    "tallyfold.data.axis_order": ["AxisOrder"],
    "tallyfold.data.cross_validator": ["cross_validator"],
    "tallyfold.data.demo": ["load_demo"],
    "tallyfold.data.formats": ["read_counts", "write_counts"],
    "tallyfold.data.near_copies": ["near_copies"],
    "tallyfold.data.query": ["read_query"],
    "tallyfold.data.simulate": ["simulate"],
    "tallyfold.data.split": ["k_folds", "split", "split_entities", "split_time", "subsample"],
    "tallyfold.data.store": ["Store", "open_store", "write_store"],
    "tallyfold.data.tensor": ["CountTensor"],
    "tallyfold.evaluation.backtest": ["backtest"],
    "tallyfold.evaluation.compare": ["compare"],
    "tallyfold.evaluation.drift": ["drift"],
    "tallyfold.evaluation.experiment": ["Experiment"],
    "tallyfold.evaluation.metrics": ["METRICS"],
    "tallyfold.evaluation.next_periods": ["next_periods"],
    "tallyfold.evaluation.next_totals": ["next_totals"],
    "tallyfold.evaluation.profiles": ["components", "profile", "top"],
    "tallyfold.evaluation.search.rank": ["select_rank"],
    "tallyfold.evaluation.search.spaces": ["SPACES"],
    "tallyfold.evaluation.search.tune": ["tune"],
    "tallyfold.evaluation.stability": ["stability"],
    "tallyfold.evaluation.surprise": ["surprise"],
    "tallyfold.inference.distributed.scatter": ["scatter"],
    "tallyfold.inference.distributed.torch_group": ["many_processes"],
    "tallyfold.models.bptf": ["BPTF"],
    "tallyfold.models.constant": ["Constant"],
    "tallyfold.models.forecasting": ["SmoothedPast"],
    "tallyfold.models.gibbs_bptf": ["GibbsBPTF"],
    "tallyfold.models.last_periods": ["LastValue", "MovingAverage", "SeasonalNaive"],
    "tallyfold.models.main_effects": ["MainEffects"],
    "tallyfold.models.margins": ["Margins"],
    "tallyfold.models.mlp_tf": ["MLPTF"],
    "tallyfold.models.ntf_ls": ["NTFLS"],
    "tallyfold.models.online_gibbs_bptf": ["OnlineGibbsBPTF"],
    "tallyfold.models.paper_vae_bptf": ["PaperVAEBPTF"],
    "tallyfold.models.ptf_kl": ["PTFKL"],
    "tallyfold.models.registry": ["MODELS"],
    "tallyfold.models.storage": ["load"],
    "tallyfold.models.vae_bptf": ["VAEBPTF"],
    "tallyfold.paper.datasets": ["DATASETS", "build_dataset"],
    "tallyfold.report.explorer": ["explore", "write_report"],
}
"""Public names by the module that has them."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = ["__version__", "errors", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tallyfold' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next look-up is a plain one
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
