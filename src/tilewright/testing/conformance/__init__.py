"""What every member of a family must do: suites to run on your own members as we do on ours."""
