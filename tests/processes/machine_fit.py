"""A fit that machines share, noting what has gone over the cable after each iteration."""

import json
import sys
import time
from pathlib import Path

import tallyfold as tf

SENT = Path("/sys/class/net/cable0/statistics/tx_bytes")
SHAPE = (20_000, 2_000, 100)
COMPONENTS = 10
MODEL = tf.BPTF(
    n_components=COMPONENTS, max_iter=24, tol=0.0, validation=None, zeros="missing", random_state=1
)


def main(folder, resume):
    with tf.many_processes() as group:
        part = tf.scatter(tf.open_store(folder / "store"))

        def note(step):
            row = [step.iteration.number, int(SENT.read_text()), time.monotonic(), part.nnz]
            with (folder / f"{group.rank}-{group.size}.jsonl").open("a") as stream:
                print(json.dumps(row), file=stream)

        model = MODEL.fit(part, checkpoint=folder / "run", every=1, resume=resume, callbacks=[note])
        if group.first:
            model.save(folder / "model")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "resume" in sys.argv)
