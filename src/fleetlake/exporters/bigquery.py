"""BigQuery as a target, through ADBC. Tested with a recorded driver, not the live service."""

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

from adbc_driver_bigquery import DatabaseOptions, dbapi

from fleetlake.exporters.sql import Dialect, SqlExporter, column_types

BIGQUERY = Dialect(
    types=column_types("bigquery"),
    columns=(
        "SELECT column_name FROM {dataset}.INFORMATION_SCHEMA.COLUMNS WHERE table_name = {table}"
    ),
    quote="`",
    has_backslash=True,
    from_stage={"JSON": "PARSE_JSON({})"},
    is_script=True,
)


def open_target(address: str) -> SqlExporter:
    """Connect to bigquery://project/dataset; ?credentials=FILE names a service account's key file.

    Without it, the driver uses Google's application default credentials.
    """
    parts = urlsplit(address)
    dataset = parts.path.strip("/")
    options = {
        DatabaseOptions.PROJECT_ID.value: parts.netloc,
        DatabaseOptions.DATASET_ID.value: dataset,
    }
    if file := parse_qs(parts.query).get("credentials"):
        options[DatabaseOptions.AUTH_TYPE.value] = (
            DatabaseOptions.AUTH_VALUE_JSON_CREDENTIAL_FILE.value
        )
        options[DatabaseOptions.AUTH_CREDENTIALS.value] = file[0]
    columns = BIGQUERY.columns.replace("{dataset}", BIGQUERY.name(dataset))
    return SqlExporter(
        dbapi.connect(db_kwargs=options, autocommit=True), replace(BIGQUERY, columns=columns)
    )
