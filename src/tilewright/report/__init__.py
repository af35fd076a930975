"""Results of tuning for people: figures of merit, record ids, and a report in one HTML file."""

from tilewright.report.collect import TaskSummary as TaskSummary, collect as collect
from tilewright.report.packing import (
    packed_before as packed_before,
    packed_by as packed_by,
    packed_in as packed_in,
    packing_note as packing_note,
)
from tilewright.report.page import render as render
from tilewright.report.peaks import MeasuredPeaks as MeasuredPeaks, Peaks as Peaks
from tilewright.report.record_ids import find_records as find_records, record_id as record_id
from tilewright.report.roofline import Roofline as Roofline, roofline_of as roofline_of
from tilewright.report.units import (
    duration as duration,
    gflops as gflops,
    percent as percent,
    seconds as seconds,
    short_target as short_target,
)
