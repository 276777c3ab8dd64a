-- Gives a push a fresh budget of attempts and takes back its end, before its
-- task is run again. It stays in the index of dead pushes until then (unlist.lua),
-- so that a retry that is cut short can be repeated by whoever lists that.
--
-- KEYS[1] record of the push
-- ARGV[1] time of the end that the caller has seen, in milliseconds; 0 for none
-- ARGV[2] seconds that the record lives until the push ends
-- ARGV[3] push, as JSON: cjson would make other numbers and lists of a notification's, or
-- fail (1e999)
--
-- Returns '' if the push may be run, or the state that forbids it: SENT, or an
-- end that another run has written since the caller looked. May be repeated.
-- Without a record there is nothing to take back.

local stored = redis.call('GET', KEYS[1])
if not stored then return '' end
local record = decode_record(stored, ARGV[3])
local attempts = record.attempts or {}
for _, attempt in ipairs(attempts) do
  if attempt.status == 'OK' then return 'SENT' end
end
if record['end'] and (record.endedAt or 0) ~= tonumber(ARGV[1]) then return record['end'] end

record['end'] = nil
record.endedAt = nil
record.budget = nil
record.budgetFrom = #attempts > 0 and #attempts or nil
store_record(KEYS[1], ARGV[3], record, ARGV[2])
return ''
