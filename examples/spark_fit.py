"""Fit a temperature to logits in Spark, and add a column of probabilities.

spark-submit --master yarn examples/spark_fit.py s3a://bucket/logits s3a://bucket/calibrated 0.93

The last argument is the model's accuracy. The logits are the only array column, called `logits`.
Every worker needs tepid and pyarrow. The temperature is written to calibration.json in the working
directory.
"""

import sys

from pyspark.sql import SparkSession

import tepid
from tepid.sources.spark import probabilities_expression


def main(logits: str, out: str, accuracy: float) -> None:
    """Run one job for each pass, and one in SQL for the probabilities."""
    spark = SparkSession.builder.appName("tepid").getOrCreate()
    frame = spark.read.parquet(logits)
    t = tepid.calibrate(frame, accuracy=accuracy)
    t.save("calibration.json")
    print(t)
    expression = probabilities_expression(t.value)
    frame.selectExpr("*", f"{expression} AS probabilities").write.parquet(out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
