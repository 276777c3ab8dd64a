-- +goose Up

-- Migrations can be repeated, and leave alone what is there: a table that somebody has
-- dropped is made again by all of them. What follows a table fails if it is not pushq's.

-- What became of each push. A push is its id and the time at which it was accepted: long
-- after, an idempotency key gives its id to another one. attempt_count (of the attempts
-- below that its newest record has) and budget_from tell an older story of a push from a
-- newer one.
CREATE TABLE IF NOT EXISTS push_notifications (
    id                    text COLLATE "C" NOT NULL,
    channel               text        NOT NULL,
    status                text        NOT NULL,
    platform              text,
    message_prototype_key text,
    push_key              text,
    message               text,
    cron_expression       text,
    time_zone             text,
    created_at            timestamptz NOT NULL,
    ended_at              timestamptz,
    attempt_count         bigint      NOT NULL,
    budget_from           bigint      NOT NULL,
    trace_id              text,
    user_id               text,
    template_code         text,
    notification          jsonb,
    PRIMARY KEY (id, created_at)
);

-- The user of a notification, or the pushKey, which is the user of a Swrve push and may be
-- longer than an index takes.
CREATE INDEX IF NOT EXISTS push_notifications_by_user ON push_notifications (left(coalesce(user_id, push_key), 200), created_at, id);
CREATE INDEX IF NOT EXISTS push_notifications_by_time ON push_notifications (created_at, id);
CREATE INDEX IF NOT EXISTS push_notifications_by_status ON push_notifications (status, created_at, id);
CREATE INDEX IF NOT EXISTS push_notifications_by_trace ON push_notifications (trace_id, created_at, id) WHERE trace_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS push_notifications_by_template ON push_notifications (template_code, created_at, id) WHERE template_code IS NOT NULL;

-- The attempts that have an outcome, by the run that made them: probes of a dead provider
-- too, but none that were withdrawn before their request. number is the place among those
-- of the record that told of the attempt first.
CREATE TABLE IF NOT EXISTS send_attempts (
    push_id         text COLLATE "C" NOT NULL,
    push_created_at timestamptz NOT NULL,
    token           text COLLATE "C" NOT NULL,
    number          bigint      NOT NULL,
    status          text        NOT NULL,
    started_at      timestamptz,
    millis          bigint,
    error_type      text,
    error_code      bigint,
    error_message   text,
    stack_trace     text,
    maybe_delivered boolean     NOT NULL,
    PRIMARY KEY (push_id, push_created_at, token)
);

-- Dropping push_notifications has taken it away, and left attempts of nothing.
ALTER TABLE send_attempts DROP CONSTRAINT IF EXISTS send_attempts_push_id_fkey,
    ADD CONSTRAINT send_attempts_push_id_fkey FOREIGN KEY (push_id, push_created_at)
        REFERENCES push_notifications (id, created_at) ON DELETE CASCADE NOT VALID;

-- Each end of a notification. A push that is run again after its end ends once more.
-- created_at is ended_at, under the name that others sort by.
CREATE TABLE IF NOT EXISTS audit_logs (
    trace_id          text,
    user_id           text,
    notification_type text,
    template_id       text,
    status            text        NOT NULL,
    metadata          jsonb,
    created_at        timestamptz NOT NULL,
    push_id           text COLLATE "C" NOT NULL,
    ended_at          timestamptz NOT NULL,
    PRIMARY KEY (push_id, ended_at)
);

CREATE INDEX IF NOT EXISTS audit_logs_by_user ON audit_logs (user_id, ended_at);
CREATE INDEX IF NOT EXISTS audit_logs_by_time ON audit_logs (created_at);
CREATE INDEX IF NOT EXISTS audit_logs_by_trace ON audit_logs (trace_id);

-- What could not be written to the tables above, byte for byte.
CREATE TABLE IF NOT EXISTS unreadable_records (
    digest   bytea PRIMARY KEY,
    channel  text        NOT NULL,
    push_id  text        NOT NULL,
    record   bytea       NOT NULL,
    reason   text        NOT NULL,
    found_at timestamptz NOT NULL DEFAULT now()
);
