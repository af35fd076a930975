"""Tasks of models."""

from tilewright.model import ExtractedTask as ExtractedTask
