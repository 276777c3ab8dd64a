-- What scripts do about a key of another type than they need. It stands before them.
-- Nobody but pushq is to write to its keys, but one that somebody has written to must cost
-- no more than what was under it.

local function is_wrong_type(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Reads from a key, and returns nil if it is of another type.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if is_wrong_type(reply) then return nil end
  if type(reply) == 'table' and reply.err then return redis.call(command, key, ...) end -- fails with that error
  return reply
end

-- Calls a command for a key of pushq's own, and once more without the key if that is of
-- another type. Redis' log has a line about it.
local function write_over(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if not (type(reply) == 'table' and reply.err) then return reply end
  if is_wrong_type(reply) then
    redis.log(redis.LOG_WARNING, 'pushq deletes ' .. key .. ', which is of another type than it has written')
    redis.call('DEL', key)
  end
  return redis.call(command, key, ...)
end

