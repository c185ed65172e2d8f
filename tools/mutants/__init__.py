"""Mutation testing of coordinator, log and the client's membership: does anything notice when they are wrong?"""
