-- Reads the members of a sorted set that stand behind a place, which need not be
-- taken. (Reading by score alone, from the same score on, would go through all
-- its members again: thousands may share one.)
--
-- KEYS[1] sorted set
-- ARGV[1] score of the place
-- ARGV[2] member of the place; '' stands before all members of that score
-- ARGV[3] number of members to read at most
--
-- Returns member, score, member, score, ...

-- Redis orders members by their bytes; < goes by the server's language.
local function less(one, other)
  for place = 1, math.min(#one, #other) do
    local difference = string.byte(one, place) - string.byte(other, place)
    if difference ~= 0 then return difference < 0 end
  end
  return #one < #other
end

local score = tonumber(ARGV[1])
local low, high = 0, redis.call('ZCARD', KEYS[1])
while low < high do
  local middle = math.floor((low + high) / 2)
  local entry = redis.call('ZRANGE', KEYS[1], middle, middle, 'WITHSCORES')
  local other = tonumber(entry[2])
  if other > score or other == score and less(ARGV[2], entry[1]) then
    high = middle
  else
    low = middle + 1
  end
end
return redis.call('ZRANGE', KEYS[1], low, low + tonumber(ARGV[3]) - 1, 'WITHSCORES')
