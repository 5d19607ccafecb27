"""The tuner: keeps watermarks near the optimum as traffic changes, by what switches report."""
