-- Events lie in files of their own from here on. What was kept of them goes;
-- their numbers go on, those of a box from its row, and that of the feed of all
-- boxes from the row of no box.
INSERT INTO counters (box_id, events) SELECT '', seq FROM sqlite_sequence WHERE name = 'events'
	ON CONFLICT (box_id) DO UPDATE SET events = excluded.events;
DROP TABLE events;
