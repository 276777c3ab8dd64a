-- Lets a push that is at its end FAILED or GIVEN_UP have one more attempt, before it waits
-- for that.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- KEYS[3] claim of the idempotency key (record.lua: take_back_claim)
-- ARGV[1] push id
-- ARGV[2] push, as JSON
-- ARGV[3] seconds that the record lives until the push ends
--
-- Returns 0 if the idempotency key stands for another push by now, else 1. Without such an
-- end nothing changes, so the call may be repeated.

local record = decode_record(read_text(KEYS[1]), ARGV[2])
if record['end'] ~= 'FAILED' and record['end'] ~= 'GIVEN_UP' then return 1 end
if not allow_one_more(record, ARGV[1], KEYS[2], KEYS[3], ARGV[3]) then return 0 end
store_record(KEYS[1], record_text(ARGV[2], record), ARGV[3])
return 1
