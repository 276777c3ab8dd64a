-- What the scripts of the records share. It stands before each of them, and behind
-- keytype.lua.
--
-- Redis may refuse a command in the middle of a script, such as one for which the user has
-- no right, and keeps what was written before. The script is repeated then. So the record,
-- by which a repetition knows what is done, is written last, and what comes before it may
-- be done twice.

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- A record is kept as {"push":PUSH,...}. The push stays the text that it was
-- given as: decoding and encoding it each time would be most of the work.
local function record_head(push) return '{"push":' .. push end

-- Finding costs less than cutting off and comparing: Lua keeps each string once, and
-- hashes all of it for that.
local function starts_with(text, head) return string.find(text, head, 1, true) == 1 end

-- Most pushes are delivered at the first attempt. Their records are written as text
-- from the first to the last, which takes Redis a quarter of the time less.
--
-- The text of a record whose only attempt is in process, up to when it started.
local function first_attempt(push, token)
  return record_head(push) .. ',"attempts":[{"token":"' .. token .. '","status":"IN_PROCESS","startedAt":'
end

-- Whether the stored text is such a one.
local function is_first_attempt(stored, push, token)
  local head = first_attempt(push, token)
  return stored and starts_with(stored, head) and string.find(stored, '^%d+}]}$', #head + 1)
end

-- Lua itself would write 1764313200000 as 1.7643132e+12.
local function milliseconds(instant) return string.format('%.0f', instant) end

-- The text under a key, or false if there is none. What somebody has put there of
-- another type is none: it is written over, so that no push and no worker stands still
-- for it.
local function read_text(key)
  local stored = redis.pcall('GET', key)
  return type(stored) == 'string' and stored
end

local is_end = {SENT = true, FAILED = true, GIVEN_UP = true, CANCELLED = true}
local is_status = {IN_PROCESS = true, OK = true, ERROR = true}

-- The types of the fields of a record and of an attempt (record.go). The push is text here.
local record_fields = {attempts = 'table', ['end'] = 'string', endedAt = 'number', budgetFrom = 'number', budget = 'number'}
local attempt_fields = {
  token = 'string', status = 'string', startedAt = 'number', millis = 'number',
  errorType = 'string', errorCode = 'number', errorMessage = 'string', stackTrace = 'string',
  maybeDelivered = 'boolean', replacement = 'string', uncounted = 'boolean', probe = 'boolean',
}

local function has_fields(value, fields)
  if type(value) ~= 'table' then return false end
  for name, wanted in pairs(fields) do
    local found = value[name]
    if found ~= nil and type(found) ~= wanted then return false end
    if found and wanted == 'number' and (found ~= math.floor(found) or math.abs(found) > 2 ^ 53) then return false end
  end
  return true
end

-- Whether what has been decoded is a record as pushq writes it. What is not would break a
-- script off, each time that it is repeated.
local function is_record(record)
  if not has_fields(record, record_fields) then return false end
  if record['end'] and not is_end[record['end']] then return false end
  local attempts, count = record.attempts or {}, 0
  for _, attempt in pairs(attempts) do
    if not has_fields(attempt, attempt_fields) or not is_status[attempt.status] then return false end
    if attempt.status == 'IN_PROCESS' and not attempt.startedAt then return false end
    count = count + 1
  end
  if count ~= #attempts then return false end -- it is no list
  local from = record.budgetFrom or 0
  return from >= 0 and from <= count
end

-- The record that is stored, without its push, and empty if there is none, or if it is
-- no record. Who does not know the push may leave it out: that takes longer.
local function decode_record(stored, push)
  if not stored then return {} end
  local head = push and record_head(push)
  local rest = head and starts_with(stored, head) and string.sub(stored, #head + 1)
  if rest == '}' then return {} end
  local decodable, record = pcall(cjson.decode, rest and '{' .. string.sub(rest, 2) or stored)
  if not decodable or not is_record(record) then return {} end
  record.push = nil
  return record
end

-- The text of a record, as it is stored.
local function record_text(push, record)
  local rest = next(record) and string.sub(cjson.encode(record), 2) or '}' -- an empty table may become a list
  return record_head(push) .. (rest == '}' and '' or ',') .. rest
end

local function store_record(key, text, seconds) redis.call('SET', key, text, 'EX', seconds) end

-- Tells those who follow the channel what has become of a push. The hash followers_key has
-- their names, and what each is told: 'ends', or 'attempts', which is of ends too. A
-- follower's stream is the hash's key with ':' and the name behind it. own are the followers
-- that the caller's configuration names, as 'name told name told': those that the hash
-- lacks are added, for Redis may have lost it. What somebody has put there of another type,
-- for the hash or a stream, is written over: the outcome is recorded by now, and the worker
-- would repeat the call for ever.
local function tell(followers_key, own, id, text, ended)
  local followers = {}
  local fields = write_over('HGETALL', followers_key)
  for place = 1, #fields, 2 do followers[fields[place]] = fields[place + 1] end
  for name, told in string.gmatch(own, '(%S+) (%S+)') do
    if not followers[name] then
      redis.call('HSET', followers_key, name, told)
      followers[name] = told
    end
  end
  for name, told in pairs(followers) do
    if ended or told == 'attempts' then
      write_over('XADD', followers_key .. ':' .. name, '*', 'id', id, 'record', text)
    end
  end
end

-- Closes the last attempt if it has been in process for so many milliseconds: its worker
-- has died. Returns its number then, 0 if it is not in process, and nil if it may still
-- end.
local function close_interrupted(attempts, milliseconds)
  local last = attempts[#attempts]
  if not last or last.status ~= 'IN_PROCESS' then return 0 end
  if now - last.startedAt < milliseconds then return nil end
  last.status = 'ERROR'
  last.errorType = 'OTHER'
  last.errorMessage = 'interrupted: the worker stopped before it could record an outcome'
  last.maybeDelivered = true
  return #attempts
end

-- Whether the claim of an idempotency key names its push (notify.go), and so may name
-- another one by now. The key of any other claim ends in the push's id, and its text is the
-- hash of the content.
local function names_push(claim_key, id) return string.sub(claim_key, -#id) ~= id end

-- Marks the claim of an idempotency key, if there is one, as that of a push that has
-- ended, and gives it so long to live: after the followers are told, for a key that is
-- free may be used again.
local function mark_claim(claim_key, id, seconds)
  local claim = read_text(claim_key)
  if claim and (not names_push(claim_key, id) or starts_with(claim, id)) then
    if string.sub(claim, -6) ~= ' ended' then claim = claim .. ' ended' end
    redis.call('SET', claim_key, claim, 'EX', seconds)
  end
end

-- Makes the claim of a push that is under way live as long as its record, if it is one
-- that names its push. Others are for as long as they were made for.
local function keep_claim(claim_key, id, seconds)
  if names_push(claim_key, id) and read_text(claim_key) == id then
    redis.call('EXPIRE', claim_key, seconds)
  end
end

-- Keeps the claim of a push that is under way again. One that names its push says so, and
-- is made anew if need be; any other stays marked as ended, if there is one. Returns the push
-- that the claim stands for if that is another one; then nothing changes.
-- SET, not EXPIRE: a full Redis takes an EXPIRE, and then everything else of the script,
-- which it would have refused.
local function take_back_claim(claim_key, id, seconds)
  local claim = read_text(claim_key)
  if not names_push(claim_key, id) then
    if claim then redis.call('SET', claim_key, claim, 'EX', seconds) end
    return
  end
  if claim and claim ~= id and claim ~= id .. ' ended' then return string.match(claim, '^%S+') end
  redis.call('SET', claim_key, id, 'EX', seconds)
end

-- Ends a record: its time, and the index of dead pushes.
local function end_record(record, ending, id, dead_key, dead_seconds)
  record['end'] = ending
  record.endedAt = now
  if ending == 'SENT' then
    write_over('ZREM', dead_key, id)
  else
    write_over('ZADD', dead_key, now, id)
    redis.call('ZREMRANGEBYSCORE', dead_key, '-inf', now - tonumber(dead_seconds) * 1000)
  end
end

-- Takes back a record's end and gives it a budget of one attempt. Returns false if the
-- claim stands for another push by now; then nothing changes.
local function allow_one_more(record, id, dead_key, claim_key, seconds)
  if take_back_claim(claim_key, id, seconds) then return false end
  record['end'] = nil
  record.endedAt = nil
  record.budgetFrom = #(record.attempts or {})
  record.budget = 1
  write_over('ZREM', dead_key, id)
  return true
end
