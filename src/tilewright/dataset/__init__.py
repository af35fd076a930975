"""Datasets of measured candidates, made in four steps, each of which goes on where it was stopped.

collect.py    models/NAME.onnx
extract.py    tasks/NAME.jsonl: the tasks of each model
sampling.py   candidates/NAME/TASK.jsonl: random candidates of each task
measuring.py  measurements/NAME/TASK.jsonl or .parquet: what they took
rows.py       files of rows, as JSON lines or Parquet
folder.py     a dataset: its files as tasks and records, and a database of all of them
pretrain.py   a cost model that was trained on a dataset
"""

from tilewright.dataset.collect import collect_models as collect_models
from tilewright.dataset.extract import extract_dataset_tasks as extract_dataset_tasks
from tilewright.dataset.folder import Dataset as Dataset, DatasetTask as DatasetTask
from tilewright.dataset.measuring import measure_candidates as measure_candidates
from tilewright.dataset.pretrain import (
    load_pretrained as load_pretrained,
    pretrain as pretrain,
)
from tilewright.dataset.sampling import sample_candidates as sample_candidates
