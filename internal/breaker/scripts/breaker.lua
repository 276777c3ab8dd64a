-- What all workers know about a service, and every change of it.
--
-- KEYS[1] hash of the breaker
-- KEYS[2] subjects that fail, those whose last answer was bad or refused: a sorted set. The
--         score is the value of goods when the latest failure of the subject was reported;
--         one less if others are known to have been served since that call was made
-- ARGV[1] ask, or what became of a permitted call: good, bad, refused (the service does not
--         take us, whatever the call is about), void (never made, or no word about the
--         service), or renew: calls that are still to be reported
-- ARGV[2] name of the call, made once; the same again changes nothing. To renew, the
--         names of one or more, with blanks between them
-- ARGV[3] what the call is about, the same for each call about it; '' for nothing
-- ARGV[4] failures in a row that open it
-- ARGV[5] milliseconds that it stays open
-- ARGV[6] good calls in a row that close it again
-- ARGV[7] milliseconds after which a call is forgotten that has not been reported or renewed
-- ARGV[8] most subjects that are remembered
-- ARGV[9] seconds after which they are forgotten, if none is remembered anew
--
-- Returns {answer, milliseconds to wait, state, failures, state before, failures before,
-- generation, 1 if the subject is suspect, good answers so far}.
-- The answers to ask are GO, WAIT (as many calls are under way as may fail), OPEN (it has not
-- been open for long enough), and LATER (calls may be made, but others come before this
-- subject: as many calls for suspects are under way as may be, or the service is to be tried
-- with other subjects first); to the others DONE.
--
-- A subject is suspect if there was a good answer for another one since its latest failure:
-- if it fails once more, that says something about the subject, and nothing about the
-- service. Its failure after that one counts again, unless others are served meanwhile: the
-- service may have died.
--
-- Fields of the hash; times are milliseconds since 1970 on Redis' clock:
--   state       closed, open, half_open
--   failures    in a row
--   successes   in a row, while half open
--   opened      when it was opened last, or a call of a half open one failed
--   generation  counts the changes of state; a report counts in that of its call only
--   unproven    the calls permitted after the last good one that have not been reported,
--               without those for suspects:
--               "TIME:NAME TIME:NAME", by the time when each was permitted or renewed
--   suspects    the same of the calls for suspects that are under way
--   call:NAME   each call that has not been reported: "GENERATION TIME", the same time
--   swept       when those of dead workers were removed last
--   goods       counts the good answers
--   looks       how often it was half open since it was closed
--   failed      the calls that have failed in this look
--   last        the subject of the latest call that failed while half open
--   refused     1 if it was opened by an answer that refuses us, until a good one

local key, failing, act, name, subject = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local threshold, open_for = tonumber(ARGV[4]), tonumber(ARGV[5])
local to_close, forget = tonumber(ARGV[6]), tonumber(ARGV[7])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local fields = write_over('HMGET', key, 'state', 'failures', 'successes', 'opened', 'generation',
  'unproven', 'swept', 'call:' .. name, 'suspects', 'goods', 'looks', 'failed', 'last', 'refused')
local state, failures = fields[1] or 'closed', tonumber(fields[2]) or 0
local successes, opened, generation = tonumber(fields[3]) or 0, tonumber(fields[4]) or 0, tonumber(fields[5]) or 0
local swept = tonumber(fields[7]) or 0
local goods, looks, failed = tonumber(fields[10]) or 0, tonumber(fields[11]) or 0, tonumber(fields[12]) or 0
local last, refused = fields[13] or '', fields[14] or '0'
local state_before, failures_before = state, failures

-- A time that is far ahead is one before the clock has jumped back (failover).
local function past(instant, age) return math.abs(now - instant) >= age end

local function under_way(text)
  local calls = {}
  for began, call in string.gmatch(text or '', '(%-?%d+):(%S+)') do
    if not past(tonumber(began), forget) then calls[#calls + 1] = {began = tonumber(began), name = call} end
  end
  return calls
end

local unproven, suspects = under_way(fields[6]), under_way(fields[9])

-- A Redis that has forgotten the breaker counts the good answers anew.
if not fields[1] then redis.call('DEL', failing) end
local failed_at -- the good answers until the subject's latest failure; nil if it does not fail
if subject ~= '' then
  local score = write_over('ZSCORE', failing, subject)
  if score then failed_at = tonumber(score) end
end
local suspect = failed_at and goods > failed_at

local function whole(number) return string.format('%.0f', number) end

local permitted = false
if fields[8] then permitted = string.match(fields[8], '^%d+') == whole(generation) end

local function answer(text, wait)
  return {text, wait, state, failures, state_before, failures_before, generation, suspect and 1 or 0, goods}
end

local function become(new_state)
  state, successes, failed, unproven, suspects, generation = new_state, 0, 0, {}, {}, generation + 1
  if new_state == 'half_open' then looks = looks + 1 end
  if new_state == 'closed' then failures, looks, last = 0, 0, '' end
end

local function text_of(calls)
  local texts = {}
  for place, call in ipairs(calls) do texts[place] = whole(call.began) .. ':' .. call.name end
  return table.concat(texts, ' ')
end

local function store()
  redis.call('HSET', key, 'state', state, 'failures', whole(failures), 'successes', whole(successes),
    'opened', whole(opened), 'generation', whole(generation), 'unproven', text_of(unproven),
    'suspects', text_of(suspects), 'goods', whole(goods), 'looks', whole(looks), 'failed', whole(failed),
    'last', last, 'refused', refused)
end

-- How many calls may fail in a look. The first one asks two: with one alone, a single bad
-- subject would keep everybody waiting for as long again.
local function may_fail() return looks <= 1 and 2 or 1 end

-- Whether the service works at least for some, so that suspects may be tried.
local function works() return state == 'closed' or state == 'half_open' and successes > 0 end

-- Removes what dead workers have left behind.
local function sweep()
  local all = redis.call('HGETALL', key)
  for place = 1, #all, 2 do
    if string.sub(all[place], 1, 5) == 'call:' and past(tonumber(string.match(all[place + 1], ' (.+)$')), forget) then
      redis.call('HDEL', key, all[place])
    end
  end
  redis.call('HSET', key, 'swept', whole(now))
end

local function permit(calls)
  if past(swept, forget) then sweep() end
  calls[#calls + 1] = {began = now, name = name}
  redis.call('HSET', key, 'call:' .. name, whole(generation) .. ' ' .. whole(now))
  store()
  return answer('GO', 0)
end

if act == 'ask' then
  if permitted then return answer('GO', 0) end
  if suspect and works() then
    if #suspects >= threshold then return answer('LATER', math.ceil(open_for / 10)) end
    return permit(suspects)
  end
  -- Those that have not failed show first whether the service works, and those that have
  -- failed take turns.
  local turn = 1
  if failed_at then turn = 1.5 end
  if subject ~= '' and subject == last then turn = 2 end
  if state == 'open' or state == 'half_open' and turn > 1 then
    turn = math.ceil(turn * open_for)
    if not past(opened, turn) then
      local others_may = state == 'half_open' or past(opened, open_for)
      return answer(others_may and 'LATER' or 'OPEN', opened + turn - now)
    end
  end
  if state == 'open' then become('half_open') end
  -- Calls under way may all fail. Those permitted after the last good one are therefore no
  -- more than failures may be, so that a service that has died is called no more often than
  -- that, however many workers there are.
  local most = state == 'half_open' and may_fail() - failed or threshold - failures
  if #unproven >= math.max(most, 1) then
    return answer('WAIT', math.max(unproven[1].began + forget - now, 1))
  end
  return permit(unproven)
end

-- What has been forgotten stays so: others may have been permitted in its place.
if act == 'renew' then
  local renewed = {}
  for call in string.gmatch(name, '%S+') do
    local generation_of, began = string.match(redis.call('HGET', key, 'call:' .. call) or '', '^(%d+) (.+)$')
    if began and not past(tonumber(began), forget) then
      redis.call('HSET', key, 'call:' .. call, generation_of .. ' ' .. whole(now))
      renewed[call] = true
    end
  end
  for _, calls in ipairs({unproven, suspects}) do
    for _, call in ipairs(calls) do
      if renewed[call.name] then call.began = now end
    end
    table.sort(calls, function(a, b) return a.began < b.began end)
  end
  if next(renewed) then store() end
  return answer('DONE', 0)
end

if not fields[8] then return answer('DONE', 0) end -- reported, or forgotten
redis.call('HDEL', key, 'call:' .. name)

-- What a call says of its subject is true however late it is reported.
if act == 'good' then
  goods, refused = goods + 1, '0'
  if failed_at then write_over('ZREM', failing, subject) end
  failed_at, suspect = nil, false
elseif act ~= 'void' and subject ~= '' then
  -- The first failure of a subject counts. If others were served in the same look, whichever
  -- was reported first, or if they have closed the breaker since this call was permitted,
  -- their good answer counts as one after this failure: with one less than goods, the subject
  -- is suspect from now on.
  local served = not permitted and state == 'closed'
    or permitted and state == 'half_open' and successes > 0 and not failed_at
  local score = served and goods - 1 or goods
  write_over('ZADD', failing, whole(math.max(score, failed_at or score)), subject)
  redis.call('ZREMRANGEBYRANK', failing, 0, -tonumber(ARGV[8]) - 1)
  redis.call('EXPIRE', failing, ARGV[9])
end

if permitted then
  for _, calls in ipairs({unproven, suspects}) do
    for place, call in ipairs(calls) do
      if call.name == name then
        table.remove(calls, place)
        break
      end
    end
  end
  if act == 'good' and state == 'half_open' then
    successes = successes + 1
    if successes >= to_close then become('closed') end
  elseif act == 'good' then
    failures, unproven = 0, {}
  elseif act ~= 'void' and not (suspect and works()) then
    failures = failures + 1
    if state == 'half_open' then failed, opened, last = failed + 1, now, subject end
    if state == 'half_open' and failed >= may_fail() or state == 'closed' and failures >= threshold then
      opened, refused = now, act == 'refused' and '1' or '0'
      become('open')
    end
  end
end
store()
return answer('DONE', 0)
