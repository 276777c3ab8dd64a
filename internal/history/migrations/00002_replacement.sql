-- +goose Up

-- The token that the provider has for the recipient from now on.
ALTER TABLE send_attempts ADD COLUMN IF NOT EXISTS replacement text;
