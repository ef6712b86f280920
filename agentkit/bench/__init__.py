"""Measuring speed, one module a figure: what is promised in numbers, measured on the machine at hand."""
