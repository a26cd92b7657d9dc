-- The levels of buckets at this moment, and a number of requests taken from each.
-- KEYS: buckets. ARGV: requests a second, burst, then for each bucket how many ask at once, then (in tests) the time.
--
-- Levels are whole millionths of a request and times whole microseconds, so that `rate` requests a second refill
-- exactly `rate` millionths a microsecond. Every number stays below 2^53, where Lua still counts exactly.
-- A bucket that is not there is full; so one that has had the time to fill up may expire.
local ONE = 1000000
local rate, full = tonumber(ARGV[1]), tonumber(ARGV[2]) * ONE
local now = tonumber(ARGV[#KEYS + 3])
if not now then
    local clock = redis.call('TIME')
    now = tonumber(clock[1]) * ONE + tonumber(clock[2])
end
local to_full = math.ceil(full / rate) -- from empty
local levels = {}
for i, key in ipairs(KEYS) do
    local level = full
    local kept = redis.call('GET', key)
    if kept then
        local last, left = string.match(kept, '^(%d+) (%d+)$')
        -- A clock that was set back refills nothing until it goes on.
        local elapsed = math.max(now - tonumber(last), 0)
        if elapsed < to_full then
            level = math.min(tonumber(left) + elapsed * rate, full)
        end
    end
    levels[i] = level
    level = level - math.min(tonumber(ARGV[i + 2]), math.floor(level / ONE)) * ONE
    local lasts = math.ceil((full - level) / rate / 1000) + 1
    redis.call('SET', key, string.format('%.0f %.0f', now, level), 'PX', string.format('%.0f', lasts))
end
return levels
