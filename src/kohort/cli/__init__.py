"""The command kohort."""
