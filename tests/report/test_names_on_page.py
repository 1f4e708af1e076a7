"""Names that people gave components are on the page."""

import tallyfold as tf
from tallyfold.report.explorer.payload import payload_of


def test_given_names_are_told_from_automatic_ones():
    tensor = tf.simulate((20, 15, 6), 3, density=0.3, random_state=2).tensor
    model = tf.BPTF(n_components=3, max_iter=10).fit(tensor).rename({1: "mail"})
    found = payload_of(model)["components"]
    assert [each["name"] for each in found] == [0, 1, 2]  # by size
    assert [each["called"] for each in found] == model.component_names_
    assert [each["named"] for each in found] == [False, True, False]
