"""The parts of a table's section: functions of a chapter that return a section, or None."""
