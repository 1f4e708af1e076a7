"""No password or token of an address is shown, however it is written."""

import traceback

import pytest

import tallyfold as tf
from tallyfold.data.query.answer import parsed_address
from tallyfold.data.secrets import without_secrets
from tallyfold.errors import TallyfoldError

FORMS = [
    "postgresql://ann:s3cret@127.0.0.1:1/name",
    "postgresql://ann:s3cret%20w0rds@127.0.0.1:1/name",
    "postgresql://ann:s3cret/w0rds@127.0.0.1:1/name",
    "postgresql://ann:s3cret@w0rds@127.0.0.1:1/name",
    "postgresql://:s3cret@127.0.0.1:1/name",
    "postgresql://127.0.0.1:1/name?password=s3cret",
    "postgresql://127.0.0.1:1/name?password=s3cret%20w0rds&user=ann",
    "postgresql://127.0.0.1:1/name?user=ann&sslpassword=s3cret&connect_timeout=never",
    "postgresql://127.0.0.1:1/name?password='s3cret w0rds'",
    "host=127.0.0.1 password=s3cret",
    "host=127.0.0.1 password='s3cret w0rds' user=ann",
    "host=127.0.0.1 password = 's3cret w0rds'",
    r"host=127.0.0.1 password='s3cret\'w0rds' user=ann",
    r"host=127.0.0.1 password=s3cret\ w0rds user=ann",
    "host=127.0.0.1 password='s3cret w0rds",
    'host=127.0.0.1 PASSWORD="s3cret w0rds"',
    "Driver=PostgreSQL;Server=127.0.0.1;Uid=ann;Pwd=s3cret;",
    "md:sales?motherduck_token=s3cret.w0rds-x",
    "duckdb:///md:sales?motherduck_token=s3cret",
    "duckdb:///sales.duckdb?aws_secret_access_key=s3cret/w0rds",
    "mysql://ann:s3cret@127.0.0.1/name",
    "ann:s3cret@127.0.0.1/name",
    "azure://127.0.0.1/x?access_key=s3cret&api_key=w0rds",
]


@pytest.mark.parametrize("address", FORMS)
def test_a_secret_is_in_no_message(address):
    with pytest.raises((TallyfoldError, FileNotFoundError)) as refused:
        tf.read_query(address, "SELECT 1 AS a, 2 AS b", axes=["a", "b"])
    told = str(refused.value)
    cause = refused.value.__cause__
    told += "" if cause is None else "".join(traceback.format_exception_only(cause))
    told += without_secrets(address, address)
    assert "s3cret" not in told
    assert "w0rds" not in told


@pytest.mark.parametrize("address", FORMS)
def test_the_rest_of_an_address_is_shown(address):
    shown = without_secrets(address, address)
    assert "***" in shown
    for word in ("127.0.0.1", "sales", "name"):
        assert (word in shown) == (word in address)


def test_an_address_is_shown_without_its_password():
    shown = repr(parsed_address("postgresql://ann:s3cret@host/name"))
    assert shown == "Address('PostgreSQL', 'postgresql://ann:***@host/name')"


@pytest.mark.parametrize("address", [form for form in FORMS if "://" in form])
def test_the_storage_of_a_search_is_shown_without_its_password(address):
    tensor = tf.simulate((6, 5), 1, density=0.5).tensor
    with pytest.raises(TallyfoldError) as refused:
        tf.tune("constant", tensor, folds=2, storage=address)
    assert "s3cret" not in str(refused.value)
    assert "w0rds" not in str(refused.value)
