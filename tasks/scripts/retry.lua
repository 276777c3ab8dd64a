-- Gives a push a fresh budget of attempts and takes back its end, before its
-- task is run again. It stays in the index of dead pushes until then (unlist.lua),
-- so that a retry that is cut short can be repeated by whoever lists that.
--
-- KEYS[1] record of the push
-- KEYS[2] claim of the idempotency key (record.lua: take_back_claim)
-- ARGV[1] push id
-- ARGV[2] push, as JSON
-- ARGV[3] time of the end that the caller has seen, in milliseconds; 0 for none
-- ARGV[4] seconds that the record lives until the push ends
--
-- Returns {'', ''} if the push may be run; or what forbids it: SENT, or an end
-- that another run has written since the caller looked, or, as the second, the
-- push that the idempotency key stands for by now. May be repeated.
-- Without a record there is no end to take back.

local stored = read_text(KEYS[1])
local record = decode_record(stored, ARGV[2])
local attempts = record.attempts or {}
for _, attempt in ipairs(attempts) do
  if attempt.status == 'OK' then return {'SENT', ''} end
end
if record['end'] and (record.endedAt or 0) ~= tonumber(ARGV[3]) then return {record['end'], ''} end
local other = take_back_claim(KEYS[2], ARGV[1], ARGV[4])
if other then return {'', other} end
if not stored then return {'', ''} end

record['end'] = nil
record.endedAt = nil
record.budget = nil
record.budgetFrom = #attempts > 0 and #attempts or nil
store_record(KEYS[1], record_text(ARGV[2], record), ARGV[4])
return {'', ''}
