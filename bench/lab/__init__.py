# SPDX-License-Identifier: Apache-2.0
"""The benchmark lab: Bailey beside its peers, on loopback, in namespaces of its own."""
