# SPDX-License-Identifier: Apache-2.0
"""What the integration tests are made of. Everything here talks only to loopback and to namespaces made by the test."""
