"""Fits on Spark in a process of its own: `python -m faults.spark_job MASTER PARQUET RESULT`.

It prints the path of tepid. For each line on standard input it then fits, writes the temperature,
and prints a line of JSON: the message of a failure or null, and the seconds.
"""

import json
import os
import sys
import time
import traceback

from pyspark.sql import SparkSession

import tepid


def main() -> None:
    """Start Spark, and fit as often as asked."""
    master, table, result = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.files.maxPartitionBytes", "1m")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    frame = session.read.parquet(table)
    print(tepid.__file__, flush=True)
    for _ in sys.stdin:
        start, failure = time.perf_counter(), None
        try:
            tepid.uts(frame).save(result)
        except tepid.InputError as error:
            failure = str(error)
        except Exception:  # noqa: BLE001  # a user would see a traceback
            failure = traceback.format_exc()
        print(json.dumps([failure, time.perf_counter() - start]), flush=True)


if __name__ == "__main__":
    main()
