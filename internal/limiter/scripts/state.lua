-- Stands before the scripts that read the state of the pace (see reserve.lua).

local announcement_lives = 15000000 -- microseconds; announced at least every 5 s
local recovery = 0.01               -- of the full speed, a second

-- recovered is the speed now, if it was this at that time (microseconds).
local function recovered(speed, at, now)
  if speed >= 1 then return speed end
  return math.min(1, speed + recovery * math.max(now - at, 0) / 1000000)
end

