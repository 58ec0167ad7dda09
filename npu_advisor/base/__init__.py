"""What every layer may use: errors, units, languages, terms, stack frames."""
