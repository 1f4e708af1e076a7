"""A store of counts: shards of positions, label tables and a manifest, in a folder."""

from tallyfold.data.store.building import write_store
from tallyfold.data.store.reading import Store, open_store

__all__ = ["Store", "open_store", "write_store"]
