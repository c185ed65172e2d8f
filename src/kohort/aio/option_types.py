"""Types of options, for type checkers and editors. ``make docs`` writes them from the option tables.

``Unpack[ConsumerOptions]`` gives keyword arguments their names and types. A keyword is Kafka's name with underscores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from kohort.assignors.spec import Assignor
from kohort.schemas.serde import Deserializer, Serializer
from kohort.secret import Secret


class TokenProvider(Protocol):
    """Source of SASL/OAUTHBEARER tokens, as in kafka-python and aiokafka."""

    def token(self) -> Any:
        """Return a token as text, or an awaitable of it."""


# fmt: off
_SaslMechanism: TypeAlias = Literal[
    "GSSAPI",
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "AWS_MSK_IAM",
    "gssapi",
    "plain",
    "scram-sha-256",
    "scram-sha-512",
    "oauthbearer",
    "aws_msk_iam",
]
_KohortAsVersion: TypeAlias = Literal[
    "2.1",
    "2.2",
    "2.3",
    "2.4",
    "2.5",
    "2.6",
    "2.7",
    "2.8",
    "3.0",
    "3.1",
    "3.2",
    "3.3",
    "3.4",
    "3.5",
    "3.6",
    "3.7",
    "3.8",
    "3.9",
    "4.0",
    "4.1",
    "4.2",
    "4.3",
    "4.4",
]


class ClientOptions(TypedDict, total=False):
    """Options of every client."""

    schema_registry_url: str | Sequence[str]
    schema_registry_basic_auth_user_info: str | Secret | None
    schema_registry_bearer_auth_token: str | Secret | None
    schema_registry_bearer_auth_logical_cluster: str | None
    schema_registry_bearer_auth_identity_pool_id: str | None
    schema_registry_ssl_ca_location: str | None
    schema_registry_ssl_certificate_location: str | None
    schema_registry_ssl_key_location: str | None
    schema_registry_ssl_key_password: str | Secret | None
    schema_registry_timeout: float
    schema_registry_max_retries: int
    schema_registry_retries_wait_ms: int
    schema_registry_retries_max_wait_ms: int
    schema_registry_cache_capacity: int
    schema_registry_cache_latest_ttl_sec: float | None
    security_protocol: Literal[
        "PLAINTEXT",
        "SSL",
        "SASL_PLAINTEXT",
        "SASL_SSL",
        "plaintext",
        "ssl",
        "sasl_plaintext",
        "sasl_ssl",
    ]
    ssl_ca_location: str | None
    ssl_ca_pem: str | None
    https_ca_location: str | None
    https_ca_pem: str | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | Secret | None
    ssl_certificate_location: str | None
    ssl_certificate_pem: str | None
    ssl_key_location: str | None
    ssl_key_pem: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | Secret | None
    ssl_endpoint_identification_algorithm: Literal["https", "none", ""]
    enable_ssl_certificate_verification: bool
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    sasl_mechanism: _SaslMechanism
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_jaas_config: str | Secret | None
    sasl_oauth_token_provider: Callable[..., Any] | TokenProvider | str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_extensions: str | None
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256", "rs256", "es256"]
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_oauthbearer_config: str | None
    enable_sasl_oauthbearer_unsecure_jwt: bool
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_kerberos_service_name: str
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_kerberos_domain_name: str | None
    sasl_aws_region: str | None
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    bootstrap_resolve_timeout_ms: int
    metadata_recovery_rebootstrap_trigger_ms: int
    socket_connection_setup_timeout_max_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    enable_metrics_push: bool
    metric_reporters: str | Sequence[str]
    metrics_recording_level: str
    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_cluster_check_enable: bool
    metadata_recovery_strategy: str
    receive_message_max_bytes: int
    metrics_num_samples: int
    metrics_sample_window_ms: int
    ssl_truststore_certificates: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | Secret | None
    sasl_mechanisms: _SaslMechanism
    sasl_oauthbearer_client_id: str | None
    sasl_oauthbearer_client_credentials_id: str | None
    sasl_oauthbearer_client_secret: str | Secret | None
    sasl_oauthbearer_client_credentials_secret: str | Secret | None
    sasl_oauthbearer_assertion_claim_issuer: str | None
    sasl_oauthbearer_assertion_claim_subject: str | None
    sasl_oauthbearer_assertion_claim_audience: str | None
    oauth_cb: Callable[..., Any] | TokenProvider | str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | Secret | None
    ssl_cafile: str | None
    ssl_capath: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | Secret | None
    ssl_ciphers: str | Sequence[str]
    basic_auth_user_info: str | Secret | None
    bearer_auth_token: str | Secret | None
    ssl_check_hostname: bool
    profile: str


class ConsumerOptions(ClientOptions, total=False):
    """Options of consumers and consumer groups."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    partition_assignment_strategy: str | Sequence[str | Assignor]
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int
    auto_offset_reset: Literal["earliest", "latest", "none"] | timedelta
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    check_crcs: bool
    allow_auto_create_topics: bool
    exclude_internal_topics: bool
    client_rack: str
    key_deserializer: Callable[[bytes], Any] | Deserializer | Literal[
        "text",
        "json",
        "int32",
        "int64",
        "float64",
        "avro",
        "json-schema",
    ] | None
    value_deserializer: Callable[[bytes], Any] | Deserializer | Literal[
        "text",
        "json",
        "int32",
        "int64",
        "float64",
        "avro",
        "json-schema",
    ] | None
    on_decode_error: Literal["raise", "skip", "undecodable"]


class ProducerOptions(ClientOptions, total=False):
    """Options of producers."""

    acks: Literal["all", "-1", "0", "1", -1, 0, 1]
    enable_idempotence: bool | None
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    delivery_timeout_ms: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    max_in_flight_requests_per_connection: int
    transactional_id: str | None
    transaction_timeout_ms: int
    retries: int
    metadata_max_idle_ms: int
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_rack_aware: bool
    partitioner: Literal[
        "murmur2_random",
        "murmur2",
        "consistent_random",
        "consistent",
        "fnv1a_random",
        "fnv1a",
        "random",
    ] | Callable[[bytes | None, int], int | None]
    key_serializer: Callable[[Any], bytes | str | None] | Serializer | Literal[
        "text",
        "json",
        "int32",
        "int64",
        "float64",
        "avro",
        "json-schema",
    ] | None
    value_serializer: Callable[[Any], bytes | str | None] | Serializer | Literal[
        "text",
        "json",
        "int32",
        "int64",
        "float64",
        "avro",
        "json-schema",
    ] | None
    partitioner_ignore_keys: bool
    transaction_two_phase_commit_enable: bool


class HandlerOptions(TypedDict, total=False):
    """Options of ``ConsumerGroup.handle``."""

    attempts: int
    delay_ms: int
    delay_factor: float
    delay_max_ms: int
    fatal: type[Exception] | Sequence[type[Exception]]
    retry_topics: bool
    retry_topic: str
    dead_letters: bool
    dead_letter_topic: str
    create_topics: bool
    concurrency: int
    max_unfinished: int
    batches: bool


class AdminOptions(ClientOptions, total=False):
    """Options of admin clients."""


class BrokerOptions(TypedDict, total=False):
    """Options of the embedded ``Broker``."""

    ssl_keystore_location: str | None
    ssl_keystore_password: str | Secret | None
    ssl_keystore_type: Literal["JKS", "PKCS12", "PEM"]
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | Secret | None
    ssl_truststore_type: Literal["JKS", "PKCS12", "PEM"]
    ssl_truststore_certificates: str | None
    ssl_client_auth: Literal["none", "requested", "required"]
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    ssl_principal_mapping_rules: str
    sasl_enabled_mechanisms: str | Sequence[str]
    sasl_jaas_config: str | Secret | None
    sasl_server_callback_handler_class: str | None
    sasl_server_max_receive_size: int
    connections_max_reauth_ms: int
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_expected_audience: str | Sequence[str]
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    node_id: int
    cluster_id: str | None
    host_name: str
    listen_host: str
    port: int
    listen_port: int
    listeners: str | Sequence[str]
    listener_security_protocol_map: str | Sequence[str]
    advertised_listeners: str | Sequence[str]
    inter_broker_listener_name: str | None
    security_inter_broker_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    kohort_add_scram: str | Secret | None
    add_scram: str | Secret | None
    kohort_as_version: _KohortAsVersion
    as_version: _KohortAsVersion
    kohort_allow_anyone: bool
    allow_anyone: bool
    kohort_metrics_listen: str | None
    metrics_listen: str | None
    kohort_metrics_allow_anyone: bool
    metrics_allow_anyone: bool
    kohort_metrics_compat: str | Sequence[str]
    metrics_compat: str | Sequence[str]
    kohort_metrics_max_partitions: int
    metrics_max_partitions: int
    kohort_metrics_max_series: int
    metrics_max_series: int
    kohort_metrics_clients: bool
    metrics_clients: bool
    kohort_client_metrics_default: str | Sequence[str]
    client_metrics_default: str | Sequence[str]
    kohort_client_metrics_default_interval_ms: int
    client_metrics_default_interval_ms: int
    kohort_client_metrics_max_instances: int
    client_metrics_max_instances: int
    kohort_client_metrics_max_values: int
    client_metrics_max_values: int
    telemetry_max_bytes: int
    authorizer_class_name: str
    super_users: str
    allow_everyone_if_no_acl_found: bool
    connection_failed_authentication_delay_ms: int
    max_connection_creation_rate: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    broker_rack: str | None
    rack: str | None
    socket_request_max_bytes: int
    connections_max_idle_ms: int
    queued_max_request_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str | Sequence[str]
    message_max_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int
    log_segment_bytes: int
    log_roll_ms: int
    log_roll_jitter_ms: int
    log_preallocate: bool
    log_segment_delete_delay_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_retention_ms: int
    log_retention_bytes: int
    log_remote_copy_lag_ms: int
    log_remote_copy_lag_bytes: int
    max_decompressed_message_bytes: int
    log_local_retention_ms: int
    log_local_retention_bytes: int
    log_retention_check_interval_ms: int
    log_cleanup_policy: str | Sequence[str]
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_message_timestamp_type: Literal["CreateTime", "LogAppendTime"]
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    kohort_producer_max_ids: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    group_coordinator_max_bytes: int
    group_coordinator_rebalance_protocols: str | Sequence[str]
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: str | Sequence[str]
    group_consumer_migration_policy: Literal["disabled", "upgrade", "downgrade", "bidirectional"]
    group_consumer_regex_refresh_interval_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_remove_expired_interval_ms: int
    transaction_coordinator_max_bytes: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
