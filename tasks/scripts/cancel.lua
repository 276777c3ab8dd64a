-- Marks a push as cancelled, before its task is archived. Begin refuses such a
-- push.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- KEYS[3] claim of the idempotency key
-- KEYS[4] those who follow the channel (record.lua: tell)
-- ARGV[1] push id
-- ARGV[2] push, as JSON
-- ARGV[3] time of the end that the caller has seen, in milliseconds; 0 for none.
--         A push that was run again with asynq's tools has its old end until
--         its attempt begins
-- ARGV[4] seconds that the record lives after the end
-- ARGV[5] the caller's own followers (record.lua: tell)
-- ARGV[6] milliseconds after which an attempt in process counts as interrupted
--
-- Returns CANCELLED, or the state that forbids it: IN_MEMORY (an attempt is in
-- process), SENT, or an end that another run has written since the caller
-- looked. May be repeated.

local record = decode_record(read_text(KEYS[1]), ARGV[2])
local attempts = record.attempts or {}
for _, attempt in ipairs(attempts) do
  if attempt.status == 'OK' then return 'SENT' end
end
if not close_interrupted(attempts, tonumber(ARGV[6])) then return 'IN_MEMORY' end
if record['end'] == 'CANCELLED' then return 'CANCELLED' end
if record['end'] and (record.endedAt or 0) ~= tonumber(ARGV[3]) then return record['end'] end

end_record(record, 'CANCELLED', ARGV[1], KEYS[2], ARGV[4])
local text = record_text(ARGV[2], record)
tell(KEYS[4], ARGV[5], ARGV[1], text, true)
mark_claim(KEYS[3], ARGV[1], ARGV[4])
store_record(KEYS[1], text, ARGV[4])
return 'CANCELLED'
