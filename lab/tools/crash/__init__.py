"""Crash rounds: kill the broker and damage its files while clients work; check their histories."""
