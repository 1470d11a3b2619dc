"""What every source of models needs: settings, errors, layers, first values."""
