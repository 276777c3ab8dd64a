-- Records the outcome of an attempt, the end of a push, or both.
--
-- KEYS[1] record of the push
-- KEYS[2] index of dead pushes
-- KEYS[3] claim of the idempotency key
-- ARGV[1] push id
-- ARGV[2] push, as JSON
-- ARGV[3] outcome of the attempt, as JSON with its token; '' for none
-- ARGV[4] 'withdraw' if the attempt's request was never made, else 'record'
-- ARGV[5] end of the push (SENT, FAILED, GIVEN_UP); '' for none
-- ARGV[6] seconds that the record lives until the push ends
-- ARGV[7] seconds that it lives after SENT
-- ARGV[8] seconds that it lives after any other end
--
-- Returns the end of the push as recorded, or ''. May be repeated.
-- An outcome is written even if another run has taken the attempt for dead,
-- so a late OK makes the push SENT. A late error ends nothing.

local record = load_record(KEYS[1], ARGV[2])
local attempts = record.attempts or {}
local ending = ARGV[5]

if ARGV[3] ~= '' then
  local outcome = cjson.decode(ARGV[3])
  local place
  for number, attempt in ipairs(attempts) do
    if attempt.token == outcome.token then place = number end
  end
  if not place and ARGV[4] == 'withdraw' then return record['end'] or '' end
  place = place or #attempts + 1
  local before = attempts[place]
  if not before or before.status ~= 'OK' then
    outcome.startedAt = outcome.startedAt or (before and before.startedAt) or now
    attempts[place] = outcome
  end
  if outcome.status ~= 'OK' and place ~= #attempts then ending = '' end
  -- A push that is put back again and again before its request keeps only the
  -- last of the rows that say so.
  if ARGV[4] == 'withdraw' and place - 1 > (record.budgetFrom or 0) and attempts[place - 1].uncounted then
    table.remove(attempts, place - 1)
  end
  record.attempts = attempts
end

-- The first end stays, but for a SENT that comes late.
if ending ~= '' and (not record['end'] or ending == 'SENT' and record['end'] ~= 'SENT') then
  end_record(record, ending, ARGV[1], KEYS[2], KEYS[3], ARGV[8])
end

local lifetime = ARGV[6]
if record['end'] == 'SENT' then
  lifetime = ARGV[7]
elseif record['end'] then
  lifetime = ARGV[8]
end
store_record(KEYS[1], ARGV[2], record, lifetime)
return record['end'] or ''
